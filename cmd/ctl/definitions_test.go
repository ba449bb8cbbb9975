package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// definitionsAgainst tries definitions out on the cluster of TestAgainstCluster.
func definitionsAgainst(t *testing.T, ctl func(want int, contains, line string) string) {
	t.Helper()
	dir := t.TempDir()
	file := func(name string, text []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	whole := filepath.Join(dir, "whole.json")
	ctl(0, "", "definitions export "+whole)
	text, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	ctl(0, `"name": "three"`, "definitions export --vhost /")
	ctl(0, "0 created, ", "definitions import "+whole)
	ctl(1, "ends in the middle", "definitions import "+file("half.json", text[:len(text)/2]))
	ctl(1, "$.queues[0].name is missing", "definitions import "+file("bad.json", []byte(`{"queues":[{"vhost":"/"}]}`)))
	ctl(2, "no such file", "definitions import "+filepath.Join(dir, "none.json"))
	more := bytes.Replace(text, []byte(`"queues": [`), []byte(`"queues": [{"name":"more","vhost":"/","arguments":{}},`), 1)
	more = bytes.Replace(more, []byte(`"x-quorum-initial-group-size": 1`), []byte(`"x-quorum-initial-group-size": 2`), 1)
	name := file("more.json", more)
	ctl(3, "dry run: 1 created, ", "definitions import --dry-run "+name)
	ctl(1, "does not exist", "queue show more")
	ctl(3, "received 2, current 1", "definitions import "+name)
	ctl(0, "more", "queue show more")
	ctl(3, "outcome: different", "definitions import -o yaml "+name)
	ctl(0, "", "queue delete more")
}
