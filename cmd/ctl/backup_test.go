package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/backup/online"
	"github.com/quorate/quorate/internal/testcluster"
)

// A backup on the command line: made, shown, verified, restored, continued, damaged and encrypted.
func TestBackup(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a node: not in short mode")
	}
	c := testcluster.Start(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	ctl := func(want int, contains, line string) string {
		t.Helper()
		var o, e shared
		args := append([]string{"-a", strings.Join(c.Addrs(), ",")}, strings.Fields(strings.ReplaceAll(line, "DIR", dir))...)
		got := run(ctx, args, &o, &e)
		all := blanks.ReplaceAllString(o.String()+e.String(), " ")
		if got != want || !strings.Contains(all, contains) {
			t.Errorf("quoratectl %s: %d, want %d and %q\n%s", line, got, want, contains, all)
		}
		return all
	}
	ctl(0, "true", "queue declare orders")
	for i := range 5 {
		ctl(0, "", fmt.Sprintf("publish orders message-%d", i))
	}
	ctl(0, "/ orders 5", "backup create DIR/all.tar")
	ctl(0, "ok: 1 queues with 5 messages", "backup verify DIR/all.tar")
	ctl(0, "/ orders 5", "backup show DIR/all.tar")
	ctl(0, `"messages": 5`, "backup show DIR/all.tar -o json")
	ctl(0, "messages: 5", "backup show DIR/all.tar -o yaml")
	ctl(1, "has a backup already", "backup create DIR/all.tar")
	ctl(0, "has a backup already: "+dir+"/all.tar", "backup create DIR/all.tar --if-missing")
	ctl(0, "/ orders 5", "backup create DIR/chosen --queue orders")
	ctl(1, "has a backup already", "backup create DIR/chosen --queue orders")
	ctl(0, "has a backup already", "backup create DIR/chosen --queue orders --if-missing")
	ctl(0, "/ orders 5", "backup create DIR/missing --queue orders --if-missing")
	ctl(1, `queue "nobody" in vhost "/" does not exist`, "backup create DIR/other --queue nobody")
	ctl(2, "", "backup create")
	ctl(2, "key file", "backup create DIR/x --key-file DIR/none")
	ctl(1, "", "backup verify DIR/none.tar")

	ctl(0, "/ copy 5 5 0", "backup restore DIR/all.tar --queue orders --as copy --dry-run")
	ctl(1, "NOT_FOUND", "queue show copy")
	restored := ctl(0, "/ copy 5 5 0", "backup restore DIR/all.tar --queue orders --as copy")
	name := regexp.MustCompile(`restore (\S+)`).FindStringSubmatch(restored)
	if len(name) != 2 {
		t.Fatalf("the restore has no name: %s", restored)
	}
	ctl(0, "/ copy 5 5 0", "backup restore DIR/all.tar --queue orders --as copy --resume "+name[1])
	ctl(0, `"messages": 5`, "queue show copy -o json")
	ctl(2, `queue "copy" in vhost "/" holds 5 messages: what the backup has of them`, "backup restore DIR/all.tar --queue orders --as copy")
	ctl(2, `--confirm is "prod", and the cluster is "test"`, "backup restore DIR/all.tar --queue orders --as copy --confirm prod")
	ctl(0, "the restore needs --confirm test", "backup restore DIR/all.tar --queue orders --as copy --dry-run")
	ctl(2, "give --confirm test", "backup restore DIR/all.tar")
	ctl(0, `"messages": 5`, "queue show copy -o json")
	ctl(0, "/ copy 5 5 0", "backup restore DIR/all.tar --queue orders --as copy --confirm test")
	ctl(0, `"messages": 10`, "queue show copy -o json")
	old := online.NewRun(time.Now().Add(-25 * time.Hour))
	ctl(2, "began 25h0m0s ago, and queues remember for 24h0m0s", "backup restore DIR/all.tar --queue orders --as copy --resume "+old)
	ctl(0, "the restore needs --confirm test", "backup restore DIR/all.tar --queue orders --as copy --dry-run --resume "+old)
	ctl(0, "warning: the name "+name[1][17:]+" does not say", "backup restore DIR/all.tar --queue orders --as rescued --resume "+name[1][17:])
	ctl(0, `"messages": 10`, "queue show copy -o json")
	ctl(0, "true", "queue declare small -x x-max-length=2 -x x-overflow=reject-publish")
	ctl(3, "refused 3 messages", "backup restore DIR/all.tar --queue orders --as small --no-definitions")
	ctl(1, "does not exist", "backup restore DIR/all.tar --queue orders --as nobody --no-definitions")

	ctl(0, "age1", "backup key DIR/key")
	ctl(1, "exists", "backup key DIR/key")
	ctl(0, "encrypted: true", "backup create DIR/secret --key-file DIR/key")
	ctl(1, "encrypted", "backup verify DIR/secret")
	ctl(0, "ok: 4 queues", "backup verify DIR/secret --key-file DIR/key")
	ctl(1, "only a single one", "backup restore DIR/secret --key-file DIR/key --as x")

	for i := range 2 {
		ctl(0, "operation node-0.", fmt.Sprintf("backup create DIR/many/%d --key-file DIR/key", i))
	}
	ctl(0, "to be removed: "+dir+"/many/0", "backup prune DIR/many --keep 1 --dry-run --key-file DIR/key")
	if got := ctl(0, "", "backup create DIR/many/{time}.tar --key-file DIR/key") + ctl(0, "Z.tar complete", "backup ls DIR/many --key-file DIR/key"); strings.Contains(got, "{time}") {
		t.Errorf("the time is not put in: %s", got)
	}
	ctl(2, "--keep", "backup prune DIR/many --key-file DIR/key")
	ctl(1, "if they are encrypted, give their key", "backup prune DIR/many --keep 1")
	ctl(0, "removed: "+dir+"/many/0", "backup prune DIR/many --keep 2 --key-file DIR/key")
	ctl(0, "nothing to remove", "backup prune DIR/many --keep 2 --key-file DIR/key")
	ctl(0, "all to "+dir+"/secret", "operations ls --all")
	ctl(0, "restore", "operations ls --all")
	long := filepath.Join(dir, strings.Repeat("x", 200), strings.Repeat("y", 200), strings.Repeat("z", 200), strings.Repeat("\xff", 200), strings.Repeat("ü", 100), "w")
	ctl(0, "operation", "backup create "+long+strings.Repeat("w", 100))

	part := filepath.Join(dir, "chosen", "queues", "000001", "000001.blocks")
	b, err := os.ReadFile(part)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(part, b, 0o600); err != nil {
		t.Fatal(err)
	}
	ctl(1, "is damaged", "backup verify DIR/chosen")
	ctl(1, "is damaged", "backup restore DIR/chosen --as copy --confirm test")
}
