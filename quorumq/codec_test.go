package quorumq

import (
	"bytes"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestCommandBytes pins the stored form of commands: other versions read what is in
// testdata/formats/commands.txt (docs/formats/command.md). The commands are written as in the
// scripts.
func TestCommandBytes(t *testing.T) {
	datadriven.RunTest(t, "testdata/formats/commands.txt", func(t *testing.T, d *datadriven.TestData) string {
		b := AppendCommand(nil, parseCommand(d))
		var dec Decoder
		c, err := dec.Decode(b)
		if err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		if again := AppendCommand(nil, c); !bytes.Equal(again, b) {
			t.Fatalf("%s: %x becomes %x", d.Pos, b, again)
		}
		return hex.EncodeToString(b) + "\n"
	})
}

// TestCommandErrors shows what Decode refuses: bytes in hex go in, an error comes out.
func TestCommandErrors(t *testing.T) {
	datadriven.RunTest(t, "testdata/formats/command_errors.txt", func(t *testing.T, d *datadriven.TestData) string {
		b, err := hex.DecodeString(strings.Join(strings.Fields(d.Input), ""))
		if err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		var dec Decoder
		c, err := dec.Decode(b)
		if err == nil {
			t.Fatalf("%s: decodes to %T%+v", d.Pos, c, c)
		}
		return err.Error() + "\n"
	})
}

// TestSnapshotBytes pins the stored form of a state in which every part is in use
// (docs/formats/snapshot.md).
func TestSnapshotBytes(t *testing.T) {
	s := &script{t: t}
	datadriven.RunTest(t, "testdata/formats/snapshot.txt", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd != "snapshot" {
			return s.run(d)
		}
		b := s.one.AppendSnapshot(nil)
		var lines strings.Builder
		for len(b) > 0 {
			n := min(len(b), 40)
			lines.WriteString(hex.EncodeToString(b[:n]) + "\n")
			b = b[n:]
		}
		return lines.String()
	})
}

// TestCutSnapshots restores every prefix of a snapshot, and the snapshot with one byte more: each
// is an error.
func TestCutSnapshots(t *testing.T) {
	b := randomQueue(t, 1, 2000).AppendSnapshot(nil)
	for n := range b {
		if _, err := Restore(b[:n]); err == nil {
			t.Fatalf("%d of %d bytes restore", n, len(b))
		}
	}
	if _, err := Restore(append(b, 0)); err == nil {
		t.Fatal("a byte too many restores")
	}
}

// TestDecodeReuses shows that decoding allocates nothing once its storage has grown.
func TestDecodeReuses(t *testing.T) {
	g := &generator{Rand: rand.New(rand.NewPCG(1, 1)), scale: 1, q: New(1024, DefaultConfig())}
	var stored [][]byte
	for range 500 {
		stored = append(stored, AppendCommand(nil, g.command()))
	}
	var d Decoder
	decode := func() {
		for _, b := range stored {
			if _, err := d.Decode(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := testing.AllocsPerRun(5, decode); n != 0 {
		t.Errorf("%v allocations for %d commands", n, len(stored))
	}
}

// Snapshots of earlier versions can be read; what such a version does not have is empty. Version 2
// does not have the time of the queue's last use, which counts as now.
func TestSnapshotBefore(t *testing.T) {
	for version, text := range map[int]string{
		2: "0280080d0001e1d4030215e0d403c5843dca843d0f03030b000e0200000a02020000000000000000" +
			"000000000200000002026e31010800010700026e32030901a5d940020701010b01d00f0702020003" +
			"000003026e3101010001010004000008026e32030400020203d00f000a00070801000101026e3203" +
			"0900010000d00f00000100040404880102016480897a00000000000106b602000532000006000101" +
			"0208b5010003640000000000000109c00102000a0a000000000000010105c80102026480897a0000" +
			"00000001010a880404010a8a897a0000000000100100010905020600050c000206020509020a0600" +
			"052800c5843d0000000800000c000100010101010000040007320064c5843d000001000007000000" +
			"0000000002010002",
		3: "0380080d0001e1d4030215e0d403c5843dca843dc5843d000f03030b000e0200000a020200000000" +
			"00000000000000000200000002026e31010800010700026e32030901a5d940020701010b01d00f07" +
			"02020003000003026e31010100010100040000080000026e32030400020203d00f000a0000000708" +
			"010001010000026e32030900010000d00f000001000000040404880102016480897a000000000000" +
			"0106b602000532000006000101000208b501000364000000000000000109c00102000a0a00000000" +
			"000000010105c80102026480897a00000000000001010a880404010a8a897a000000000000100100" +
			"010905020600050c000206020509020a0600052800c5843d0000000800000c000100010101010000" +
			"040007320064c5843d0000010000070000000000000002010002",
		4: "0480080d0001e1d4030215e0d403c5843dca843dc5843d000f03030b000e0200000a020200000000" +
			"000000000000000002000000000002026e31010800010700026e32030901a5d940020701010b01d0" +
			"0f0702020003000003026e31010100010100040000080000026e32030400020203d00f000a000000" +
			"0708010001010000026e32030900010000d00f00000100000000040404880102016480897a000000" +
			"0000000106b602000532000006000101000208b501000364000000000000000109c00102000a0a00" +
			"000000000000010105c80102026480897a00000000000001010a880404010a8a897a000000000000" +
			"100100010905020600050c000206020509020a0600052800c5843d0000000800000c000100010101" +
			"010000040007320064c5843d0000010000070000000000000002010002",
		5: "0580080d0001e1d4030215e0d403c5843dca843dc5843d000f03030100000b000e0200000a020200" +
			"000000000000000000000002000000000002026e31010800010700026e32030901a5d94002070101" +
			"0b01d00f0702020003000003026e31010100010100040000080000026e32030400020203d00f000a" +
			"0000000708010001010000026e32030900010000d00f00000100000000040404880102016480897a" +
			"0000000000000106b602000532000006000101000208b501000364000000000000000109c0010200" +
			"0a0a00000000000000010105c80102026480897a00000000000001010a880404010a8a897a000000" +
			"000000100100010905020600050c000206020509020a0600052800c5843d0000000800000c000100" +
			"010101010000040007320064c5843d000001000007000000000000000201000200",
		6: "0680080d0001e1d4030215e0d403c5843dca843dc5843d000f03030100000b000e0200000a020200" +
			"0000000000000000000000020000000000000002026e31010800010700026e32030901a5d9400207" +
			"01010b01d00f0702020003000003026e31010100010100040000080000026e32030400020203d00f" +
			"000a0000000708010001010000026e32030900010000d00f00000100000000040404880102016480" +
			"897a0000000000000106b602000532000006000101000208b501000364000000000000000109c001" +
			"02000a0a00000000000000010105c80102026480897a00000000000001010a880404010a8a897a00" +
			"0000000000100100010905020600050c000206020509020a0600052800c5843d0000000800000c00" +
			"0100010101010000040007320064c5843d000001000007000000000000000201000200",
		7: "0780080d0001e1d4030215e0d403c5843dca843dc5843d000f03030100000b000e0200000a020200" +
			"000000000000000000000002000000000000000000000002026e31010800010700026e32030901a5" +
			"d940020701010b01d00f0702020003000003026e31010100010100040000080000026e3203040002" +
			"0203d00f000a0000000708010001010000026e32030900010000d00f000001000000000404048801" +
			"02016480897a0000000000000106b602000532000006000101000208b50100036400000000000000" +
			"0109c00102000a0a00000000000000010105c80102026480897a00000000000001010a880404010a" +
			"8a897a000000000000100100010905020600050c000206020509020a0600052800c5843d00000008" +
			"00000c000100010101010000040007320064c5843d000001000007000000000000000201000200",
	} {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		q, err := Restore(b)
		if err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		if q.idle.used != q.now || q.now != 1000005 || q.store.ready.len() != 6 || q.backlog.set.len() != 2 || q.stats.enqueued != 14 {
			t.Errorf("version %d: used at %d, now %d, %d messages ready", version, q.idle.used, q.now, q.store.ready.len())
		}
	}
}

func TestConfigValidate(t *testing.T) {
	c := DefaultConfig()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	c = Config{MaxLength: -2, MaxLengthBytes: -3, MessageTTLMs: -4, DisconnectedTimeoutMs: -1, ExpiresMs: -2, ExpiresIfEmpty: true, Overflow: 9, DeadLetter: 9}
	err := c.Validate()
	for _, name := range []string{"MaxLength ", "MaxLengthBytes", "MessageTTLMs", "DisconnectedTimeoutMs", "ExpiresMs", "Overflow", "DeadLetter"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in: %v", name, err)
		}
	}
	if c.Normal() != (Config{MaxLength: -1, MaxLengthBytes: -1, MessageTTLMs: -1, ExpiresMs: -1}) {
		t.Errorf("normal form is %+v", c.Normal())
	}
}

// randomQueue returns a queue after n random commands.
func randomQueue(t testing.TB, seed uint64, n int) *Queue {
	t.Helper()
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), scale: 1, index: 1}
	q := New(1024, g.config())
	g.q = q
	for range n {
		c := g.command()
		q.Apply(g.meta(c), c)
	}
	return q
}

// FuzzDecodeCommand decodes any bytes. The result is an error, or a command that has these bytes as
// its stored form and that does no harm to a queue.
func FuzzDecodeCommand(f *testing.F) {
	g := &generator{Rand: rand.New(rand.NewPCG(2, 0)), scale: 1, q: randomQueue(f, 2, 300)}
	for range 200 {
		f.Add(AppendCommand(nil, g.command()))
	}
	state := g.q.AppendSnapshot(nil)
	f.Fuzz(func(t *testing.T, b []byte) {
		var d Decoder
		c, err := d.Decode(b)
		if err != nil {
			return
		}
		if again := AppendCommand(nil, c); !bytes.Equal(again, b) {
			t.Fatalf("%x becomes %x", b, again)
		}
		q, err := Restore(state)
		if err != nil {
			t.Fatal(err)
		}
		applyAndCheck(t, q, c)
	})
}

// FuzzRestore restores any bytes. The result is an error, or a queue that passes its check and
// continues to work. If the bytes are of this version, they are also the queue's snapshot.
func FuzzRestore(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(randomQueue(f, seed, 50*int(seed)).AppendSnapshot(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := Restore(b)
		if err != nil {
			return
		}
		again := q.AppendSnapshot(nil)
		if b[0] >= snapshotFirstRules && !bytes.Equal(again, b) {
			t.Fatalf("%x becomes %x", b, again)
		}
		if same, err := Restore(again); err != nil || !bytes.Equal(same.AppendSnapshot(nil), again) {
			t.Fatalf("%x, written as %x, is not restored from that: %v", b, again, err)
		}
		g := &generator{Rand: rand.New(rand.NewPCG(3, 0)), scale: 1, q: q, index: 1 << 40}
		for range 20 {
			applyAndCheck(t, q, g.command())
		}
	})
}

func applyAndCheck(t *testing.T, q *Queue, c Command) {
	t.Helper()
	index := uint64(0)
	for r := range q.Live() {
		index = r.Index
	}
	if index > math.MaxUint64-2 || q.store.ready.nextOrd > 1<<57 {
		return // the log ends there
	}
	q.Apply(Meta{Index: index + 1, Now: q.now + 1}, c)
	if err := q.check(); err != nil {
		t.Fatalf("after %v%+v: %v", reflect.TypeOf(c), c, err)
	}
}
