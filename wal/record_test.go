package wal

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal/vfs"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

const goldenSecret = 0x1122334455667788

// goldenSegment builds a segment with a record of every kind.
func goldenSegment() []byte {
	const seq = 3
	salt := saltOf(seq, goldenSecret)
	st := state{first: 2, next: 5, term: 4, voteTerm: 4, voteFor: []byte("node-2")}
	k := keep{span: span{0, ^uint64(0)}, bound: 2, left: []span{{1, 2}}, brought: []span{{7, 9}, {12, 13}}}
	e := raft.Log{
		Index: 4, Term: 4, Type: raft.LogNoop, Data: []byte("data"), Extensions: []byte("ext"),
		AppendedAt: time.Unix(1700000000, 5),
	}
	records := []record{
		st.record(1024, CauseVote), entryRecord(KindEntry, 1024, &e),
		entryRecord(KindRetained, 1024, &raft.Log{Index: 7, Term: 1, Data: []byte("old")}),
		k.record(1024),
		{kind: KindDeleted, group: 1025},
	}
	b := header(seq, goldenSecret)
	var footer []byte
	for i := range records {
		records[i].synced = 64
		b = records[i].appendTo(b, salt)
		footer = appendItem(footer, &records[i])
	}
	return appendSeal(b, seq, salt, int64(len(b)), footer)
}

// The bytes of format version 1 do not change; docs/formats/wal-segment.md explains them.
func TestGoldenSegment(t *testing.T) {
	const file = "testdata/segment_v1.hex"
	got := hex.Dump(goldenSegment())
	if *rewrite {
		ok(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	ok(t, err)
	if got != string(want) {
		t.Errorf("the bytes differ from %s:\n%s", file, got)
	}
}

func TestRecordRoundTrip(t *testing.T) {
	var got []string
	size := int64(len(goldenSegment()))
	_, footer, err := scanRecords(bytes.NewReader(goldenSegment()), headerBytes, size, saltOf(3, goldenSecret), func(_ int64, r *record) error {
		got = append(got, r.kind.String())
		if r.kind != KindEntry {
			return nil
		}
		var e raft.Log
		r.entry(&e)
		if e.Index != 4 || e.Term != 4 || e.Type != raft.LogNoop || string(e.Data) != "data" || string(e.Extensions) != "ext" ||
			!e.AppendedAt.Equal(time.Unix(1700000000, 5)) || r.group != 1024 {
			t.Errorf("entry is %+v", e)
		}
		return nil
	})
	ok(t, err)
	if strings.Join(got, " ") != "state entry retained keep deleted" || !footer {
		t.Errorf("records are %v, footer %v", got, footer)
	}
}

// An intact record of an older generation of the file is never taken for one of this.
func TestSaltsDiffer(t *testing.T) {
	for _, secret := range []uint64{0, goldenSecret, ^uint64(0)} {
		seen := map[uint32]uint32{}
		for seq := uint32(1); seq < 1<<16; seq++ {
			salt := saltOf(seq, secret)
			if other, was := seen[salt]; was {
				t.Fatalf("segments %d and %d have salt %08x", seq, other, salt)
			}
			seen[salt] = seq
		}
	}
	r := entryRecord(KindEntry, 1, &raft.Log{Index: 1, Data: []byte("x")})
	b := r.appendTo(nil, saltOf(1, goldenSecret))
	if _, intact := parseRecord(b, saltOf(2, goldenSecret)); intact {
		t.Error("a record of segment 1 passes in segment 2")
	}
}

func TestIndex(t *testing.T) {
	var x index
	var want []uint64
	for i := uint64(0); i < 5000; i += 1 + i%7*i%90 {
		for _, j := range []uint64{i, 9000 - i} {
			if x.set(j, loc{1, uint32(j), 1}) == (loc{}) {
				want = append(want, j)
			}
		}
	}
	slices.Sort(want)
	all := func() (got []uint64) {
		x.all(span{0, ^uint64(0)}, func(i uint64, l loc) bool {
			if uint64(l.off) != i || x.get(i) != l {
				t.Fatalf("place of %d is %+v", i, l)
			}
			got = append(got, i)
			return true
		})
		return got
	}
	if !slices.Equal(all(), want) {
		t.Fatal("not all are there")
	}
	dropped := 0
	x.remove(span{100, 8000}, func(i uint64) bool { return i%3 > 0 }, func(loc) { dropped++ })
	n := len(want)
	want = slices.DeleteFunc(want, func(i uint64) bool { return i >= 100 && i < 8000 && i%3 > 0 })
	if !slices.Equal(all(), want) || dropped != n-len(want) {
		t.Fatal("the wrong ones are gone")
	}
	for i := uint64(64); i < 200; i++ {
		x.set(i, loc{1, uint32(i), 1})
	}
	for _, window := range []span{{0, ^uint64(0)}, {70, 180}, {64, 128}, {5000, 9000}} {
		var plain []span
		x.all(window, func(i uint64, _ loc) bool {
			plain = addIndex(plain, i)
			return true
		})
		if got := x.spans(window); !slices.Equal(got, plain) {
			t.Errorf("spans in %v are %v, not %v", window, got, plain)
		}
	}
	x.remove(span{0, ^uint64(0)}, always, func(loc) {})
	if x.chunks != nil {
		t.Error("chunks are left")
	}
}

func FuzzRecord(f *testing.F) {
	golden := goldenSegment()
	salt := saltOf(3, goldenSecret)
	ok := func(b []byte) {
		if n := recordSize(b, int64(len(b))); n > 0 {
			f.Add(b[:n])
		}
	}
	for at := headerBytes; at+HeadBytes < len(golden); {
		n := recordSize(golden[at:], int64(len(golden)-at))
		if n == 0 {
			break
		}
		ok(golden[at:])
		at += n
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fix(b, salt)
		r, intact := parseRecord(b, salt)
		if !intact {
			return
		}
		if again := r.appendTo(nil, salt); !bytes.Equal(again, b) {
			t.Errorf("%x became %x", b, again)
		}
		if st, err := parseState(&r); r.kind == KindState && err == nil {
			again := st.record(r.group, Cause(r.typ))
			if !bytes.Equal(again.data, r.data) {
				t.Errorf("state %x became %x", r.data, again.data)
			}
		}
		if k, err := parseKeep(&r); r.kind == KindKeep && err == nil {
			for _, spans := range [][]span{k.left, k.brought} {
				at := k.lo
				for _, s := range spans {
					if s.lo < at || s.hi <= s.lo || s.hi > k.hi {
						t.Fatalf("spans %v in %v", spans, k.span)
					}
					at = s.hi
				}
			}
		}
		_ = parseItems(r.data, func(item) error { return nil })
	})
}

// fix makes the checksum right, so that what is behind it is reached.
func fix(b []byte, salt uint32) {
	if len(b) >= HeadBytes {
		c := checksum(b[4:]) ^ salt
		b[0], b[1], b[2], b[3] = byte(c), byte(c>>8), byte(c>>16), byte(c>>24)
	}
}

// Records and footers of any content are opened or refused, never a cause to stop.
func FuzzOpen(f *testing.F) {
	golden := goldenSegment()
	salt := saltOf(3, goldenSecret)
	_, footer, err := scanRecords(bytes.NewReader(golden), headerBytes, int64(len(golden)), salt, func(int64, *record) error { return nil })
	if err != nil || !footer {
		f.Fatal(err)
	}
	f.Add(golden[headerBytes:], []byte{})
	f.Add(golden[headerBytes:356], golden[0x191:0x1e2])
	f.Add([]byte("0"), []byte("\x040M00\x00")) // group 77 is lost
	f.Fuzz(func(t *testing.T, records, footer []byte) {
		for at := 0; at < len(records); {
			n := recordSize(records[at:], int64(len(records)-at))
			if n == 0 {
				break
			}
			fix(records[at:at+n], salt)
			at += n
		}
		b := append(header(3, goldenSecret), records...)
		if len(footer) > 0 {
			b = appendSeal(b, 3, salt, int64(len(b)), footer)
		}
		d := vfs.NewMem()
		file, err := d.Create(segmentName(3))
		ok(t, err)
		_, err = file.WriteAt(b, 0)
		ok(t, err)
		l, err := Open(d, testConfig())
		if err != nil {
			return
		}
		for _, group := range l.Groups() {
			readSome(t, groupOf(t, l, group))
		}
		rollerIdle(l)
		ok(t, l.tidy())
		stored(t, groupOf(t, l, unnamed(l)), entries(1, 1, 2, 100))
		ok(t, l.Close())
	})
}

// unnamed returns a group that no record of the log names.
func unnamed(l *Log) id.GroupID {
	l.mu.Lock()
	defer l.mu.Unlock()
	group := id.GroupID(77)
	for _, buried := l.deleted[group]; buried || l.groups[group] != nil; _, buried = l.deleted[group] {
		group++
	}
	return group
}

func readSome(t *testing.T, g *GroupLog) {
	first, err := g.FirstIndex()
	if err != nil {
		return
	}
	for i := first; i < first+10; i++ {
		var e raft.Log
		if err := g.GetLog(i, &e); err == nil && e.Index != i {
			t.Errorf("entry %d is %d", i, e.Index)
		}
	}
}
