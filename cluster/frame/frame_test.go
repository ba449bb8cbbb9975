package frame

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/internal/grpcmem"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

func header(name string) raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: 3, ID: []byte(name), Addr: []byte(name)}
}

// calls are AppendEntries in all their forms.
func calls() []*raft.AppendEntriesRequest {
	return []*raft.AppendEntriesRequest{
		{},
		{RPCHeader: header("n1"), Term: 7, Leader: []byte("n1")},
		{RPCHeader: header("n1"), Term: 7, PrevLogEntry: 9, PrevLogTerm: 6, LeaderCommitIndex: 8, Leader: []byte("other"), Entries: []*raft.Log{
			{Index: 10, Term: 7, Type: raft.LogNoop},
			{Index: 11, Term: 7, Type: raft.LogCommand, Data: []byte("small"), Extensions: []byte("ext")},
			{Index: 1 << 62, Term: 1 << 40, Type: raft.LogConfiguration, Data: bytes.Repeat([]byte("large"), 1000)},
		}},
		{RPCHeader: raft.RPCHeader{ProtocolVersion: -1}, Entries: []*raft.Log{{}}},
	}
}

// protoCall is the call as proto/node/v1 describes it.
func protoCall(group, request uint64, r *raft.AppendEntriesRequest) *nodev1.Frame {
	p := &nodev1.AppendEntriesRequest{
		Header: HeaderTo(r.RPCHeader), Term: r.Term, PrevLogEntry: r.PrevLogEntry, PrevLogTerm: r.PrevLogTerm,
		LeaderCommitIndex: r.LeaderCommitIndex,
		Leader:            r.Leader, //nolint:staticcheck // older members read it
	}
	for _, e := range r.Entries {
		p.Entries = append(p.Entries, &nodev1.LogEntry{
			Index: e.Index, Term: e.Term, Type: uint32(e.Type), Data: e.Data, Extensions: e.Extensions,
		})
	}
	return &nodev1.Frame{Kind: &nodev1.Frame_RaftCall{RaftCall: &nodev1.RaftCall{
		Group: group, Request: request, Rpc: &nodev1.RaftCall_AppendEntries{AppendEntries: p},
	}}}
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	if m, ours := v.(*OutMessage); ours {
		for i := range m.Frames {
			m.Frames[i].Measure()
		}
	}
	b, err := NewCodec(&grpcmem.Pool{}).Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b.Materialize()
}

func decode(t testing.TB, b []byte) *InMessage {
	t.Helper()
	m := NewInMessage("n1")
	if err := NewCodec(&grpcmem.Pool{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// What is written by hand has the bytes that proto/node/v1 describes, and what is read
// by hand is what package proto reads.
func TestWireIsProto(t *testing.T) {
	for i, c := range calls() {
		byHand := encode(t, &OutMessage{Frames: []Out{{Call: &AppendCall{Group: 1024, Request: 300, Args: *c}}}})
		byProto := encode(t, &nodev1.LinkRequest{Frames: []*nodev1.Frame{protoCall(1024, 300, c)}})
		if !bytes.Equal(byHand, byProto) {
			t.Errorf("call %d is written\n%x, by proto\n%x", i, byHand, byProto)
		}
		for _, b := range [][]byte{byHand, byProto} {
			f := decode(t, b).Frames[0]
			if f.Call == nil || f.Group != 1024 || f.Request != 300 || !sameCall(f.Call, c) {
				t.Errorf("call %d is read %+v of %+v", i, f, f.Call)
			}
		}
		p := &nodev1.LinkRequest{}
		if err := proto.Unmarshal(byHand, p); err != nil {
			t.Fatal(err)
		}
		if r, err := CallOf(p.GetFrames()[0].GetRaftCall()); err != nil || !sameCall(r.(*raft.AppendEntriesRequest), c) { //nolint:errcheck // a test may panic
			t.Errorf("call %d is read by proto %+v, %v", i, r, err)
		}
	}
	for i, r := range []raft.AppendEntriesResponse{
		{}, {RPCHeader: header("n1"), Term: 7, LastLog: 9, Success: true}, {RPCHeader: header("n2"), Term: 1 << 50, NoRetryBackoff: true},
	} {
		byHand := encode(t, &OutMessage{Frames: []Out{{Answer: &AppendAnswer{Request: 5, Response: r}}}})
		byProto := encode(t, &nodev1.LinkResponse{Frames: []*nodev1.Frame{{Kind: &nodev1.Frame_RaftAnswer{RaftAnswer: &nodev1.RaftAnswer{
			Request: 5, Rpc: &nodev1.RaftAnswer_AppendEntries{AppendEntries: &nodev1.AppendEntriesResponse{
				Header: HeaderTo(r.RPCHeader), Term: r.Term, LastLog: r.LastLog, Success: r.Success, NoRetryBackoff: r.NoRetryBackoff,
			}},
		}}}}})
		if !bytes.Equal(byHand, byProto) {
			t.Errorf("answer %d is written\n%x, by proto\n%x", i, byHand, byProto)
		}
		f := decode(t, byHand).Frames[0]
		if f.Answer == nil || f.Request != 5 || !reflect.DeepEqual(*f.Answer, r) {
			t.Errorf("answer %d is read %+v of %+v, want %+v", i, f, f.Answer, r)
		}
	}
}

// Golden Bytes: nodes of other versions read them.
func TestWireGolden(t *testing.T) {
	c := &raft.AppendEntriesRequest{
		RPCHeader: header("n1"), Term: 2, PrevLogEntry: 3, PrevLogTerm: 1, LeaderCommitIndex: 3,
		Entries: []*raft.Log{{Index: 4, Term: 2, Type: raft.LogCommand, Data: []byte("ab")}},
	}
	got := hex.EncodeToString(encode(t, &OutMessage{Frames: []Out{{Call: &AppendCall{Group: 1024, Request: 1, Args: *c}}}}))
	const want = "0a270a250880081001" + "1a1e0a0a080312026e311a026e31" + "100218032001" + "2a080804100222026162" + "3003"
	if got != want {
		t.Errorf("bytes %s, want %s", got, want)
	}
}

func sameCall(a, b *raft.AppendEntriesRequest) bool {
	if len(a.Entries) != len(b.Entries) {
		return false
	}
	for i := range a.Entries {
		x, y := a.Entries[i], b.Entries[i]
		if x.Index != y.Index || x.Term != y.Term || x.Type != y.Type || !bytes.Equal(x.Data, y.Data) || !bytes.Equal(x.Extensions, y.Extensions) {
			return false
		}
	}
	return sameHeader(a.RPCHeader, b.RPCHeader) && a.Term == b.Term && a.PrevLogEntry == b.PrevLogEntry &&
		a.PrevLogTerm == b.PrevLogTerm && a.LeaderCommitIndex == b.LeaderCommitIndex &&
		bytes.Equal(a.Leader, b.Leader) //nolint:staticcheck // older members read it
}

func sameHeader(a, b raft.RPCHeader) bool {
	return a.ProtocolVersion == b.ProtocolVersion && bytes.Equal(a.ID, b.ID) && bytes.Equal(a.Addr, b.Addr)
}

// Frames of all kinds travel in one message, in order.
func TestWireMixed(t *testing.T) {
	m := decode(t, encode(t, &OutMessage{Frames: []Out{
		{Frame: &nodev1.Frame{Kind: &nodev1.Frame_Ping{Ping: &nodev1.Ping{Number: 1}}}},
		{Call: &AppendCall{Group: 1, Request: 2, Args: *calls()[2]}},
		{Frame: &nodev1.Frame{}},
		{Frame: &nodev1.Frame{Kind: &nodev1.Frame_RaftAnswer{RaftAnswer: &nodev1.RaftAnswer{Request: 3, Error: "no"}}}},
		{Answer: &AppendAnswer{Request: 4}},
	}}))
	if len(m.Frames) != 5 || m.Frames[0].Frame.GetPing().GetNumber() != 1 || m.Frames[1].Call == nil ||
		m.Frames[2].Frame == nil || m.Frames[3].Frame.GetRaftAnswer().GetError() != "no" || m.Frames[4].Answer == nil {
		t.Errorf("%+v", m.Frames)
	}
}

// A call with an entry type that raft cannot have is refused, not cut to size.
func TestWireEntryType(t *testing.T) {
	f := protoCall(1, 1, &raft.AppendEntriesRequest{Entries: []*raft.Log{{Index: 9}}})
	f.GetRaftCall().GetAppendEntries().GetEntries()[0].Type = 256
	m := decode(t, encode(t, &nodev1.LinkRequest{Frames: []*nodev1.Frame{f}}))
	if m.Frames[0].Call != nil {
		t.Fatal("read by hand")
	}
	if _, err := CallOf(m.Frames[0].Frame.GetRaftCall()); err == nil || !strings.Contains(err.Error(), "entry 9 has type 256") {
		t.Errorf("error %v", err)
	}
}

// FuzzWire: no input makes the reader panic, and what it takes for AppendEntries is what
// package proto takes it for.
func FuzzWire(f *testing.F) {
	for _, c := range calls() {
		f.Add(encode(f, &OutMessage{Frames: []Out{{Call: &AppendCall{Group: 1024, Request: 300, Args: *c}}, {Answer: &AppendAnswer{Request: 4}}}}))
	}
	for _, x := range queueFrames() {
		f.Add(encode(f, &OutMessage{Frames: []Out{{Frame: x}}}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := NewInMessage("n1")
		p := &nodev1.LinkRequest{}
		err, protoErr := m.read(cut(b, len(b), 1)), proto.Unmarshal(b, p)
		for _, size := range []int{1, 3, 64} {
			n := NewInMessage("n1")
			if again := n.read(cut(b, 0, size)); (again == nil) != (err == nil) || err == nil && !sameFrames(n.Frames, m.Frames) {
				t.Fatalf("in pieces of %d: %+v, %v; whole: %+v, %v", size, n.Frames, again, m.Frames, err)
			}
		}
		if protoErr != nil {
			return // it may be taken: what it says is checked by raft
		}
		if err != nil || len(m.Frames) != len(p.GetFrames()) {
			t.Fatalf("%d frames, %v; by proto %d", len(m.Frames), err, len(p.GetFrames()))
		}
		for i, in := range m.Frames {
			if in.Frame != nil && !proto.Equal(in.Frame, p.GetFrames()[i]) {
				t.Fatalf("read %v, by proto %v", in.Frame, p.GetFrames()[i])
			}
			if in.Call == nil || proto.Size(p.GetFrames()[i]) != protoSizeOf(in) {
				continue // not as this package writes it
			}
			r, err := CallOf(p.GetFrames()[i].GetRaftCall())
			if err != nil || !sameCall(r.(*raft.AppendEntriesRequest), in.Call) { //nolint:errcheck // a test may panic
				t.Fatalf("read %+v, by proto %+v, %v", in.Call, r, err)
			}
		}
	})
}

func protoSizeOf(in In) int {
	f := Out{Call: &AppendCall{Group: in.Group, Request: in.Request, Args: *in.Call}}
	f.Measure()
	return f.size
}

// trim keeps what fits, one entry at least, and never reports a commit beyond it.
func TestTrim(t *testing.T) {
	for _, c := range []struct {
		name          string
		count, each   int
		limit         int
		kept          int
		commit, wantC uint64
	}{
		{name: "nothing to cut", count: 4, each: 100, limit: 1000, kept: 4, commit: 9, wantC: 9},
		{name: "one too large stays", count: 3, each: 5000, limit: 1000, kept: 1, commit: 9, wantC: 1},
		{name: "half", count: 4, each: 400, limit: 1000, kept: 2, commit: 1, wantC: 1},
		{name: "heartbeat", limit: 1000, commit: 9, wantC: 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := &raft.AppendEntriesRequest{Entries: entries(c.count, c.each), LeaderCommitIndex: c.commit}
			size := Trim(args, c.limit)
			if len(args.Entries) != c.kept || args.LeaderCommitIndex != c.wantC || size != c.kept*(c.each+entryOverheadBytes) {
				t.Errorf("%d entries of %d bytes, commit %d", len(args.Entries), size, args.LeaderCommitIndex)
			}
		})
	}
}

// entries are as many as that, of so many bytes each.
func entries(count, bytesEach int) []*raft.Log {
	all := make([]*raft.Log, count)
	for i := range all {
		all[i] = &raft.Log{Index: uint64(i + 1), Term: 1, Type: raft.LogCommand, Data: bytes.Repeat([]byte{'x'}, bytesEach)}
	}
	return all
}
