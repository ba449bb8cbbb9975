package main

import (
	"bytes"
	"encoding/json"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal"
	"github.com/quorate/quorate/wal/vfs"
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sample writes a log with two segments.
func sample(t *testing.T) string {
	t.Helper()
	path := t.TempDir()
	dir, err := vfs.OS(path)
	ok(t, err)
	l, err := wal.Open(dir, wal.Config{SegmentBytes: 4096})
	ok(t, err)
	for group := id.GroupID(1024); group < 1027; group++ {
		g, err := l.Group(group)
		ok(t, err)
		ok(t, g.SetUint64([]byte("LastVoteTerm"), 2))
		ok(t, g.Set([]byte("LastVoteCand"), []byte("node-1")))
		for i := uint64(1); i <= 6; i++ {
			ok(t, g.StoreLog(&raft.Log{Index: i, Term: 2, Data: bytes.Repeat([]byte{byte(i)}, 200)}))
		}
		ok(t, g.DeleteRange(1, 3))
		ok(t, g.Retain(^uint64(0), singles(slices.Values([]uint64{2}))))
	}
	ok(t, l.Delete(1026))
	ok(t, l.Close())
	return path
}

func dumpOf(t *testing.T, args ...string) (status int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	status = run(args, &o, &e)
	return status, o.String(), e.String()
}

func TestTable(t *testing.T) {
	path := sample(t)
	status, out, errOut := dumpOf(t, path)
	if status != statusOK || errOut != "" {
		t.Fatalf("status %d: %s", status, errOut)
	}
	for _, want := range []string{
		"00000001.wal", "00000002.wal", "sealed", "g1024  6 ", "log from 4, term 0, vote node-1 in term 2", "g1026 ", "deleted",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
	if status, out, _ = dumpOf(t, "-records", "-data", "-group", "1025", path); status != statusOK {
		t.Fatalf("status %d", status)
	}
	for _, want := range []string{
		"g1025 create: log empty at 1", "g1025 prefix: log 4..6, term 0, vote node-1 in term 2", "g1025 index 6, term 2, LogCommand, 200 bytes",
		"g1025 from 0 below 4: left 2 brought none", "06 06 06 06",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
	if strings.Contains(out, "g1024") {
		t.Error("another group is shown")
	}
}

func TestJSON(t *testing.T) {
	status, out, _ := dumpOf(t, "-json", "-records", sample(t))
	if status != statusOK {
		t.Fatalf("status %d", status)
	}
	count := map[string]int{}
	for line := range strings.Lines(out) {
		var v struct {
			What  string `json:"what"`
			Group uint64 `json:"group"`
			State *struct{ First, Last uint64 }
		}
		ok(t, json.Unmarshal([]byte(line), &v))
		count[v.What]++
		if v.What == "group" && v.Group == 1024 && (v.State == nil || v.State.First != 4) {
			t.Errorf("group is %s", line)
		}
	}
	if count["segment"] < 2 || count["group"] != 3 || count["record"] < 28 {
		t.Errorf("there are %v", count)
	}
}

// Damage is named with segment, offset and what was there, and shows in the status.
func TestDamage(t *testing.T) {
	path := sample(t)
	name := filepath.Join(path, "00000001.wal")
	b, err := os.ReadFile(name)
	ok(t, err)
	at := bytes.Index(b, bytes.Repeat([]byte{3}, 200))
	b[at+7] ^= 4
	ok(t, os.WriteFile(name, b, 0o600))
	status, out, errOut := dumpOf(t, path)
	if status != statusBad || !strings.Contains(out, "entry of group g1024, index 3 has a wrong checksum") ||
		!strings.Contains(out, "1 damaged") || errOut != "waldump: 1 places are damaged\n" {
		t.Errorf("status %d: %s\n%s", status, out, errOut)
	}
	b[3] = 0
	ok(t, os.WriteFile(name, b, 0o600))
	if status, out, _ := dumpOf(t, "-json", path, "00000001.wal"); status != statusBad || !strings.Contains(out, `"offset":0`) {
		t.Errorf("status %d: %s", status, out)
	}
}

func TestUsage(t *testing.T) {
	path := sample(t)
	for want, args := range map[string][]string{
		"usage: waldump":               {},
		"flag provided but not":        {"-nonsense", path},
		"no such file":                 {filepath.Join(path, "missing")},
		"has no segments":              {t.TempDir()},
		"is not a directory":           {filepath.Join(path, "00000001.wal")},
		`"other" is not a segment's n`: {path, "other"},
	} {
		status, _, errOut := dumpOf(t, args...)
		if status == statusOK || !strings.Contains(errOut, want) {
			t.Errorf("%v: status %d: %s", args, status, errOut)
		}
	}
}

// singles yields indexes as ranges of one.
func singles(indexes iter.Seq[uint64]) iter.Seq2[uint64, uint64] {
	return func(yield func(first, last uint64) bool) {
		for i := range indexes {
			if !yield(i, i) {
				return
			}
		}
	}
}
