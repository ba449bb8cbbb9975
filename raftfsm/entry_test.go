package raftfsm

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

func sampleEntry() (entryHead, []Command) {
	head := entryHead{lead: true, term: 7, seq: 3, nowMs: 1_700_000_000_123}
	return head, []Command{
		command("enqueue", "first body", "", "third"),
		command(""),
		command("settle"),
		command("enqueue", strings.Repeat("x", 300)),
	}
}

// golden compares bytes with a file of hexadecimal digits.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	text := hex.Dump(got)
	if *rewrite {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s differs; a change of the format needs a new version:\n%s", path, text)
	}
}

func TestEntryGolden(t *testing.T) {
	head, commands := sampleEntry()
	data := appendEntry(nil, testGroup, head, commands)
	golden(t, "entry_v1.hex", data)
	e, err := decodeEntry(testGroup, data)
	if err != nil {
		t.Fatal(err)
	}
	if e.entryHead != head || e.commands != 4 || e.bodies != 4 {
		t.Errorf("decoded %+v", e)
	}
	bodies := e.bodySet()
	e.each(func(place int, slot uint32, header []byte, n int) bool {
		if string(header) != string(commands[place].Header) || n != len(commands[place].Bodies) {
			t.Errorf("command %d: header %q with %d bodies", place, header, n)
		}
		for i, want := range commands[place].Bodies {
			if got, ok := bodies.body(slot + uint32(i)); !ok || !bytes.Equal(got, want) {
				t.Errorf("command %d body %d: %q, %v", place, i, got, ok)
			}
		}
		return true
	})
	if _, ok := bodies.body(4); ok {
		t.Error("there is a body too many")
	}
	sparse, err := appendSparse(nil, testGroup, 42, bodies, []uint32{0, 3})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "entry_sparse_v1.hex", sparse)
	if got := int64(len(sparse)); got != sparseBytes(2, 310) {
		t.Errorf("sparse entry has %d bytes, foretold were %d", got, sparseBytes(2, 310))
	}
	s, err := openBodies(testGroup, 42, sparse)
	if err != nil {
		t.Fatal(err)
	}
	for slot, want := range map[uint32]string{0: "first body", 3: strings.Repeat("x", 300)} {
		if got, ok := s.body(slot); !ok || string(got) != want {
			t.Errorf("sparse body %d: %q", slot, got)
		}
	}
	if _, ok := s.body(1); ok {
		t.Error("sparse entry has a body that was left out")
	}
	if _, err := appendSparse(nil, testGroup, 42, s, []uint32{1}); err == nil {
		t.Error("a missing body was copied")
	}
}

// Every single flipped bit and every cut is noticed.
func TestEntryDamageIsNoticed(t *testing.T) {
	head, commands := sampleEntry()
	whole := appendEntry(nil, testGroup, head, commands)
	e, err := decodeEntry(testGroup, whole)
	if err != nil {
		t.Fatal(err)
	}
	sparse, err := appendSparse(nil, testGroup, 42, e.bodySet(), []uint32{0, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"whole": whole, "sparse": sparse} {
		t.Run(name, func(t *testing.T) {
			check := func(what string, g id.GroupID, index uint64, b []byte) {
				if _, err := openBodies(g, index, b); !errors.Is(err, errCorrupt) {
					t.Fatalf("%s: %v", what, err)
				}
			}
			for i := range data {
				for bit := range 8 {
					b := bytes.Clone(data)
					b[i] ^= 1 << bit
					check("flipped bit", testGroup, 42, b)
				}
				check("cut", testGroup, 42, data[:i])
			}
			check("longer", testGroup, 42, append(bytes.Clone(data), 0))
			check("other group", testGroup+1, 42, data)
		})
	}
	if _, err := openBodies(testGroup, 43, sparse); !errors.Is(err, errCorrupt) {
		t.Errorf("sparse entry of another index: %v", err)
	}
}

// Commands that change places are noticed, although each of them is whole.
func TestEntrySwappedCommands(t *testing.T) {
	two := []Command{command("a"), command("b")}
	data := appendEntry(nil, testGroup, entryHead{}, two)
	rows := data[entryHeadBytes : entryHeadBytes+2*commandRowBytes]
	swapped := append(bytes.Clone(rows[commandRowBytes:]), rows[:commandRowBytes]...)
	copy(rows, swapped)
	n := len(data)
	data[n-2], data[n-1] = data[n-1], data[n-2]
	if _, err := decodeEntry(testGroup, data); !errors.Is(err, errCorrupt) {
		t.Errorf("swapped commands: %v", err)
	}
}

func TestEntryAllocations(t *testing.T) {
	head, commands := sampleEntry()
	data := appendEntry(nil, testGroup, head, commands)
	if n := testing.AllocsPerRun(100, func() { _, _ = decodeEntry(testGroup, data) }); n != 0 {
		t.Errorf("decoding allocates %v times", n)
	}
	size := entryHeadBytes
	for _, c := range commands {
		size += commandBytes(c)
	}
	if size != len(data) {
		t.Errorf("foretold %d bytes, entry has %d", size, len(data))
	}
}

func FuzzEntry(f *testing.F) {
	head, commands := sampleEntry()
	whole := appendEntry(nil, testGroup, head, commands)
	f.Add(whole)
	e, err := decodeEntry(testGroup, whole)
	if err != nil {
		f.Fatal(err)
	}
	sparse, err := appendSparse(nil, testGroup, 42, e.bodySet(), []uint32{0, 3})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sparse)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := openBodies(testGroup, 42, data)
		if err != nil {
			return
		}
		for i := range len(s.ends) {
			slot := uint32(i)
			if s.slots != nil {
				slot = s.slots[i]
			}
			if _, ok := s.body(slot); !ok {
				t.Fatalf("body %d is missing", slot)
			}
		}
		e, err := decodeEntry(testGroup, data)
		if err != nil {
			return
		}
		bodies := e.bodySet()
		var again []Command
		e.each(func(_ int, slot uint32, header []byte, n int) bool {
			c := Command{Header: header}
			for j := range n {
				b, _ := bodies.body(slot + uint32(j))
				c.Bodies = append(c.Bodies, b)
			}
			again = append(again, c)
			return true
		})
		if b := appendEntry(nil, testGroup, e.entryHead, again); !bytes.Equal(b, data) {
			t.Fatalf("encodes to %x, was %x", b, data)
		}
	})
}

// FuzzEntryTables writes right checksums into what the fuzzer makes, so that it gets
// past them to the lengths.
func FuzzEntryTables(f *testing.F) {
	head, commands := sampleEntry()
	f.Add(appendEntry(nil, testGroup, head, commands))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < entryHeadBytes {
			return
		}
		data = bytes.Clone(data)
		fixHeadSum(data)
		e, err := decodeEntry(testGroup, data)
		if err != nil && !errors.Is(err, errCorrupt) && !errors.Is(err, ErrUnreadable) {
			t.Fatal(err)
		}
		if err == nil {
			e.bodySet()
		}
	})
}

func fixHeadSum(data []byte) {
	t := castagnoli()
	sum := crc32.Update(groupSum(t, testGroup), t, data[:entryHeadBytes-4])
	binary.LittleEndian.PutUint32(data[entryHeadBytes-4:], sum)
}

// metas records what the machine learns of each command.
type metas struct {
	logMachine

	seen []Meta
}

func (m *metas) Apply(at Meta, _ []byte, _ int) (reply, string, error) {
	m.seen = append(m.seen, at)
	return reply{}, "", nil
}

// A machine learns which command is the last one of its entry.
func TestMoreCommandsFollow(t *testing.T) {
	t.Parallel()
	m := &metas{}
	g := &Group[reply, string]{c: Config[reply, string]{Group: testGroup}, machine: m}
	commands := []Command{{Header: []byte("a"), Bodies: [][]byte{{1}, {2}}}, {Header: []byte("b")}, {Header: []byte("c")}}
	for i, n := range []int{3, 1} {
		g.applyEntry(&raft.Log{Index: uint64(i) + 5, Term: 1, Data: appendEntry(nil, testGroup, entryHead{term: 1, nowMs: 9}, commands[:n])})
	}
	want := []Meta{
		{Index: 5, NowMs: 9, More: true},
		{Index: 5, FirstSlot: 2, NowMs: 9, More: true},
		{Index: 5, FirstSlot: 2, NowMs: 9},
		{Index: 6, NowMs: 9},
	}
	if !slices.Equal(m.seen, want) {
		t.Errorf("the machine got %+v, want %+v", m.seen, want)
	}
}
