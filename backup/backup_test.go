package backup

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"

	"github.com/quorate/quorate/quorumq"
)

// copied returns the blocks of a copy.
func copied(t testing.TB, h Head, messages []Message) []byte {
	t.Helper()
	var all []byte
	w := NewWriter(func(b []byte) ([]byte, error) {
		all = append(all, b...)
		return b, nil
	})
	err := w.Head(&h)
	for i := range messages {
		err = errors.Join(err, w.Message(&messages[i]))
	}
	if err = errors.Join(err, w.End()); err != nil {
		t.Fatal(err)
	}
	return all
}

// samples has a message of each form.
func samples() []Message {
	plain := Message{TTLMs: quorumq.Unlimited, Priority: quorumq.DefaultPriority, Past: quorumq.Past{At: 1000}}
	with := func(change func(*Message)) Message {
		m := plain
		m.Stored = []byte("message")
		change(&m)
		return m
	}
	return []Message{
		with(func(m *Message) { m.Past.Reason = quorumq.ReasonExpired }),
		with(func(m *Message) { m.Past.To = &quorumq.Destination{Kind: quorumq.ToQueue, Name: "q"} }),
		with(func(m *Message) {
			m.Past.To = &quorumq.Destination{Kind: quorumq.ToExchange, Name: "x", HasKey: true}
		}),
		with(func(m *Message) { m.Past.AcquiredCount, m.Past.DeliveryCount = 3, 2 }),
		with(func(m *Message) { m.TTLMs, m.Priority = 0, 31 }),
		with(func(m *Message) { m.Due = 5000 }),
		with(func(*Message) {}),
		plain, // an empty body is possible, an empty form is not: the node refuses it, not this package
	}
}

// TestGolden pins the bytes of a copy (docs/formats/backup.md).
func TestGolden(t *testing.T) {
	got := copied(t, Head{VHost: "/", Queue: "orders", UID: 1024, Index: 77, At: 123456, Messages: 8, Left: 5}, samples())
	const file = "testdata/copy_v1.hex"
	if os.Getenv("REWRITE") != "" {
		if err := os.WriteFile(file, []byte(hex.Dump(got)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if hex.Dump(got) != string(want) {
		t.Errorf("the bytes are\n%s\nwant\n%s", hex.Dump(got), want)
	}
}

// TestRoundTrip writes and reads copies with blocks of all sizes.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var want []Message
	for i := range 10_000 {
		m := samples()[r.IntN(len(samples()))]
		m.Stored = bytes.Repeat([]byte{byte(i)}, r.IntN(300))
		if i%1000 == 0 {
			m.Stored = bytes.Repeat([]byte{byte(i)}, 2*BlockBytes)
		}
		want = append(want, m)
	}
	in := bytes.NewReader(copied(t, Head{Queue: "q", Messages: uint64(len(want))}, want))
	var got []Message
	var kinds [4]int
	size := uint64(0)
	for {
		b, err := Read(in, nil)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		x, err := Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if kinds[x.Kind]++; x.Kind == KindMessages && x.First != uint64(len(got))+1 {
			t.Fatalf("a block begins with message %d after %d", x.First, len(got))
		}
		got = append(got, x.Messages...)
		for i := range x.Messages {
			size += uint64(len(x.Messages[i].Stored))
		}
		if x.Kind == KindEnd && x.End != (End{Messages: uint64(len(want)), Bytes: size}) {
			t.Errorf("the end is %+v", x.End)
		}
	}
	if kinds[KindHead] != 1 || kinds[KindEnd] != 1 || kinds[KindMessages] < 10 {
		t.Errorf("blocks by kind: %v", kinds)
	}
	if len(got) != len(want) {
		t.Fatalf("%d messages, want %d", len(got), len(want))
	}
	for i := range got {
		if len(got[i].Stored) == 0 {
			got[i].Stored = nil
		}
		if len(want[i].Stored) == 0 {
			want[i].Stored = nil
		}
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("message %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}

// TestDamage flips each bit of a copy and cuts it at each place: nothing of that may go unnoticed.
func TestDamage(t *testing.T) {
	whole := copied(t, Head{VHost: "v", Queue: "q", Messages: 8}, samples())
	read := func(b []byte) (ended bool, err error) {
		for in := bytes.NewReader(b); ; {
			block, err := Read(in, nil)
			if errors.Is(err, io.EOF) {
				return ended, nil
			}
			if err != nil {
				return ended, err
			}
			x, err := Decode(block)
			if err != nil {
				return ended, err
			}
			ended = x.Kind == KindEnd
		}
	}
	if ended, err := read(whole); err != nil || !ended {
		t.Fatal(ended, err)
	}
	for i := range whole {
		for bit := range 8 {
			b := bytes.Clone(whole)
			b[i] ^= 1 << bit
			if _, err := read(b); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
				t.Errorf("bit %d of byte %d flipped: %v", bit, i, err)
			}
		}
		if ended, err := read(whole[:i]); err == nil && ended {
			t.Errorf("cut after %d bytes, and it seems whole", i)
		}
	}
}

// TestKept: whoever gets a block may keep it, and blocks of like messages do not grow while they are filled.
func TestKept(t *testing.T) {
	var kept [][]byte
	w := NewWriter(func(b []byte) ([]byte, error) {
		kept = append(kept, b)
		return nil, nil
	})
	sizes := []int{1000, 1, 20_000, 100, BlockBytes + 1, 0, 3 * BlockBytes}
	count := func(i int) int { return 3*BlockBytes/(sizes[i]+100) + 1 }
	err := w.Head(&Head{VHost: "/", Queue: "q"})
	for i, size := range sizes {
		for range count(i) {
			m := samples()[6]
			m.Stored = bytes.Repeat([]byte{byte(i)}, size)
			err = errors.Join(err, w.Message(&m))
		}
	}
	if err = errors.Join(err, w.End()); err != nil {
		t.Fatal(err)
	}
	at, left, likes := 0, count(0), 0
	for _, b := range kept[1 : len(kept)-1] {
		x, err := Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range x.Messages {
			if !bytes.Equal(m.Stored, bytes.Repeat([]byte{byte(at)}, sizes[at])) {
				t.Fatalf("a message of %d bytes has %d, or others", sizes[at], len(m.Stored))
			}
			if left--; left == 0 && at < len(sizes)-1 {
				at++
				left, likes = count(at), 0
			}
		}
		if likes++; likes > 2 && cap(b) > headRoom+BlockBytes+sizes[at]+factsBytes+spareBytes+8<<10 {
			t.Errorf("a block of messages of %d bytes takes %d", sizes[at], cap(b))
		}
	}
	if at != len(sizes)-1 || left != 0 {
		t.Errorf("%d messages of size %d are missing", left, sizes[at])
	}
}

// TestSpare: memory that emit returns is used again, and blocks of small messages hardly take any other.
func TestSpare(t *testing.T) {
	blocks, m := 0, samples()[6]
	m.Stored = make([]byte, 1000)
	w := NewWriter(func(b []byte) ([]byte, error) {
		blocks++
		return b, nil
	})
	n := testing.AllocsPerRun(20, func() {
		for range 50 * BlockBytes / len(m.Stored) {
			if err := w.Message(&m); err != nil {
				t.Fatal(err)
			}
		}
	})
	if blocks < 20*49 || n > 2 {
		t.Errorf("%d blocks, %v allocations for 50 of them", blocks, n)
	}
}

// FuzzDecode makes sure that no bytes make Decode panic, and that what it accepts has one form.
func FuzzDecode(f *testing.F) {
	whole := copied(f, Head{VHost: "v", Queue: "q", Messages: 8}, samples())
	for in := bytes.NewReader(whole); ; {
		b, err := Read(in, nil)
		if err != nil {
			break
		}
		f.Add(b[:len(b)-sumBytes])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = sealed(b)
		x, err := Decode(b)
		if err != nil {
			return
		}
		var again []byte
		w := NewWriter(func(b []byte) ([]byte, error) {
			again = bytes.Clone(b)
			return nil, nil
		})
		switch x.Kind {
		case KindHead:
			err = w.Head(&x.Head)
		case KindMessages:
			w.messages, w.block = x.First-1, make([]byte, headRoom)
			for i := range x.Messages {
				w.block = putMessage(w.block, &x.Messages[i])
				w.count++
			}
			err = w.flush()
		case KindEnd:
			w.messages, w.bytes = x.End.Messages, x.End.Bytes
			err = w.End()
		}
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x becomes %x: %v", b, again, err)
		}
	})
}
