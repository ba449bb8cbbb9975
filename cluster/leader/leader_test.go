package leader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
)

const timeout = 2 * time.Second

// cluster is the nodes a, b and c, of which a asks, and the members of one queue on them. What they answer is decided by
// its fields.
type cluster struct {
	t    *testing.T
	view *catalog.View
	uid  id.QueueUID

	mu         sync.Mutex    // guards what changes while somebody asks
	leader     id.NodeID     // "": none is elected
	known      id.NodeID     // that a's member takes for the leader
	learned    chan struct{} // closed when a's member learns of it
	waits      int           // for that
	busy       bool          // it does not answer yet
	hint       bool          // members name the leader
	unlinked   []id.NodeID   // from a
	hibernated bool
	voters     []string // as the leader says; nil: it is of an older build
	asked      []string // node and question, in order
	kept       []bool   // of questions for the status
}

func newCluster(t *testing.T) (*cluster, *Leaders) {
	t.Helper()
	c := catalog.New()
	apply := func(cmd catalog.Command) catalog.Reply {
		r := c.Apply(c.View().Index()+1, 1, cmd)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		return r
	}
	for _, n := range []id.NodeID{"a", "b", "c", "d"} {
		apply(&catalog.RegisterNode{ID: n, Epoch: 1})
	}
	r := apply(&catalog.DeclareQueue{
		VHost: "/", Name: "q", Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"a", "b", "c"}, Leader: "a",
	})
	x := &cluster{t: t, view: c.View(), uid: r.UID, leader: "b"}
	return x, New(Config{
		Node: "a", View: func() *catalog.View { return x.view }, Members: x, Transport: x, Own: member{x, "a"},
		CommandTimeout: timeout, Life: t.Context(),
	})
}

func (x *cluster) LeaderOf(id.QueueUID) (id.NodeID, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.known, x.known != ""
}

func (x *cluster) AwaitLeader(id.QueueUID) (learned <-chan struct{}, end func()) {
	x.waits++
	return x.learned, func() { x.waits-- }
}

func (x *cluster) Connected(n id.NodeID) (id.Epoch, bool) {
	return 1, n != "a" && n != "" && !slices.Contains(x.unlinked, n)
}

func (x *cluster) Client(n id.NodeID) (nodev1.NodeClient, error) {
	if _, up := x.Connected(n); !up {
		return nil, status.Error(codes.Unavailable, "no link to "+string(n))
	}
	return link{member: member{x, n}}, nil
}

// member is a node's member of the queue.
type member struct {
	x    *cluster
	node id.NodeID
}

func (m member) ask(what string) (hint id.NodeID, leads bool) {
	m.x.mu.Lock()
	defer m.x.mu.Unlock()
	m.x.asked = append(m.x.asked, string(m.node)+" "+what)
	if m.x.hint {
		hint = m.x.leader
	}
	return hint, m.node == m.x.leader && !m.x.busy
}

func (m member) QueueStatus(_ context.Context, r *nodev1.QueueStatusRequest) (*nodev1.QueueStatusResponse, error) {
	hint, leads := m.ask("status")
	m.x.kept = append(m.x.kept, r.GetKept())
	out := &nodev1.QueueStatusResponse{Leader: string(hint), Hibernated: m.x.hibernated}
	if m.x.hibernated && r.GetKept() || !leads {
		return out, nil
	}
	overview, err := json.Marshal(quorumq.Overview{Ready: 7})
	out.HasOverview, out.Overview, out.BacklogTrouble = true, overview, "no route"
	out.Group = &nodev1.GroupStatus{Voters: m.x.voters}
	return out, err
}

func (m member) PeekQueue(_ context.Context, r *nodev1.PeekQueueRequest) (*nodev1.PeekQueueResponse, error) {
	hint, leads := m.ask("peek")
	return &nodev1.PeekQueueResponse{Leads: leads, Leader: string(hint), Looked: uint64(r.GetLimit())}, nil
}

func (m member) Export(_ context.Context, _ *nodev1.ExportQueueRequest, emit func([]byte) ([]byte, error)) error {
	_, err := emit([]byte(m.node))
	return err
}

func (m member) TransferLeadership(_ context.Context, r *nodev1.TransferLeadershipRequest) (*nodev1.TransferLeadershipResponse, error) {
	if _, leads := m.ask("transfer"); !leads {
		return nil, status.Error(codes.FailedPrecondition, "does not lead")
	}
	m.x.leader = id.NodeID(r.GetTo())
	return &nodev1.TransferLeadershipResponse{}, nil
}

// link is the link to another node's member.
type link struct {
	nodev1.NodeClient
	member
}

func (l link) QueueStatus(ctx context.Context, r *nodev1.QueueStatusRequest, _ ...grpc.CallOption) (*nodev1.QueueStatusResponse, error) {
	return l.member.QueueStatus(ctx, r)
}

func (l link) PeekQueue(ctx context.Context, r *nodev1.PeekQueueRequest, _ ...grpc.CallOption) (*nodev1.PeekQueueResponse, error) {
	return l.member.PeekQueue(ctx, r)
}

func (l link) TransferLeadership(
	ctx context.Context, r *nodev1.TransferLeadershipRequest, _ ...grpc.CallOption,
) (*nodev1.TransferLeadershipResponse, error) {
	return l.member.TransferLeadership(ctx, r)
}

// Whoever leads is found: by what the member here knows, by what a member asked names, or by asking one after the other.
func TestFindsTheLeader(t *testing.T) {
	for _, row := range []struct {
		name  string
		set   func(*cluster)
		asked string
	}{
		{"known here", func(x *cluster) { x.known = "b" }, "b"},
		{"this node", func(x *cluster) { x.known, x.leader = "a", "a" }, "a"},
		{"named by another", func(x *cluster) { x.hint = true }, "a b"},
		{"asked in turn", func(*cluster) {}, "a b"},
		{"known wrongly, and named", func(x *cluster) { x.known, x.hint = "c", true }, "c b"},
		{"behind a link that is down", func(x *cluster) { x.leader, x.unlinked = "c", []id.NodeID{"b"} }, "a c"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, l := newCluster(t)
				row.set(x)
				page, err := l.Peek(t.Context(), x.uid, Peek{Limit: 5})
				if err != nil || page.Looked != 5 {
					t.Errorf("page %+v, %v", page, err)
				}
				if got := strings.ReplaceAll(strings.Join(x.asked, " "), " peek", ""); got != row.asked {
					t.Errorf("asked %s, want %s", got, row.asked)
				}
			})
		})
	}
}

// A question that waits for a leader is asked ever more rarely, and at once where the member here learns who leads. Where
// a leader is known, or named, it is asked often.
func TestWaitsForLeader(t *testing.T) {
	const elected = 20*time.Second + 3*time.Millisecond
	elect := func(x *cluster) { x.leader, x.busy = "b", false }
	for _, row := range []struct {
		name        string
		before      func(*cluster, *Leaders)
		elect       func(*cluster)
		late        time.Duration // how long after the election the answer may come
		least, most int           // questions
	}{
		{"nobody knows one", func(*cluster, *Leaders) {}, func(x *cluster) {
			x.known, x.leader = "b", "b"
			close(x.learned)
		}, 0, 10, 35},
		{"one is known here and does not answer", func(x *cluster, _ *Leaders) { x.known = "b" }, elect, lastRetry, 300, 500},
		{"one is named and does not answer", func(x *cluster, _ *Leaders) { x.leader, x.hint, x.busy = "b", true, true }, elect, lastRetry, 300, 500},
		{"the queue has no member here", func(_ *cluster, l *Leaders) { l.cfg.Node = "d" }, elect, 3 * lastRetry, 250, 500},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, l := newCluster(t)
				l.cfg.CommandTimeout = 0
				x.leader, x.learned = "", make(chan struct{})
				row.before(x, l)
				began := time.Now()
				time.AfterFunc(elected, func() {
					x.mu.Lock()
					defer x.mu.Unlock()
					row.elect(x)
				})
				_, err := l.Peek(t.Context(), x.uid, Peek{Limit: 1})
				if took := time.Since(began); err != nil || took < elected || took > elected+row.late {
					t.Errorf("after %v: %v; want no error, at most %v after %v", took, err, row.late, elected)
				}
				if n := len(x.asked); n < row.least || n > row.most {
					t.Errorf("asked %d times within %v, want %d to %d times", n, elected, row.least, row.most)
				}
				if x.waits != 0 {
					t.Errorf("%d waits for a leader were not ended", x.waits)
				}
			})
		})
	}
}

// Without a leader a question fails in time, and names the queue, its members and what was wrong last; so it does when
// the node stops, and at once for a queue that is gone.
func TestNoLeader(t *testing.T) {
	for _, row := range []struct {
		name string
		call func(*cluster, *Leaders) error
		want error
		took time.Duration
		says string
	}{
		{"in time", func(x *cluster, l *Leaders) error {
			_, err := l.Status(x.t.Context(), x.uid)
			return err
		}, traffic.ErrUnavailable, timeout, `queue "q"`},
		{"by the caller's deadline", func(x *cluster, l *Leaders) error {
			ctx, cancel := context.WithTimeout(x.t.Context(), time.Second)
			defer cancel()
			_, err := l.Status(ctx, x.uid)
			return err
		}, traffic.ErrUnavailable, time.Second, `members ["a" "b" "c"] runs: node`},
		{"when the node stops", func(x *cluster, l *Leaders) error {
			life, end := context.WithCancel(x.t.Context())
			l.cfg.Life = life
			time.AfterFunc(time.Second, end)
			_, err := l.Status(x.t.Context(), x.uid)
			return err
		}, traffic.ErrClosed, time.Second, `queue "q"`},
		{"of a queue that is gone", func(x *cluster, l *Leaders) error {
			_, err := l.Status(x.t.Context(), x.uid+1)
			return err
		}, traffic.ErrNoSuchQueue, 0, "is not in this node's view"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, l := newCluster(t)
				x.leader = ""
				began := time.Now()
				err := row.call(x, l)
				if took := time.Since(began); !errors.Is(err, row.want) || took != row.took || !strings.Contains(fmt.Sprint(err), row.says) {
					t.Errorf("after %v: %v; want %v after %v that says %s", took, err, row.want, row.took, row.says)
				}
			})
		})
	}
}

// A status has the members with those that are linked; one that only looks does not wake a queue that hibernates unless
// the node with the figures is gone.
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, l := newCluster(t)
		x.known, x.unlinked = "b", []id.NodeID{"c"}
		s, err := l.Status(t.Context(), x.uid)
		if err != nil || s.Overview.Ready != 7 || s.Leader != "b" || s.BacklogTrouble != "no route" ||
			!slices.Equal(s.Members, []id.NodeID{"a", "b", "c"}) || !slices.Equal(s.Online, []id.NodeID{"a", "b"}) {
			t.Errorf("%+v, %v", s, err)
		}
		x.voters = []string{"b", "c"} // the member on a is rebuilt
		if s, err := l.Status(t.Context(), x.uid); err != nil || !slices.Equal(s.Online, []id.NodeID{"b"}) {
			t.Errorf("%+v, %v", s, err)
		}
		x.known, x.hint, x.hibernated, x.kept = "a", true, true, nil
		if _, err := l.Figures(t.Context(), x.uid); err != nil || !slices.Equal(x.kept, []bool{true, true, false}) {
			t.Errorf("kept figures were asked for as %v, %v", x.kept, err)
		}
		if r, err := l.StatusAt(t.Context(), "a", x.uid); err != nil || r.GetHasOverview() {
			t.Errorf("a member that does not lead: %v, %v", r, err)
		}
	})
}

// Leadership goes to a member alone, from whoever leads, and is confirmed by the one that it goes to.
func TestTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, l := newCluster(t)
		if err := l.Transfer(t.Context(), x.uid, "d"); err == nil || !strings.Contains(err.Error(), "members") || len(x.asked) > 0 {
			t.Errorf("to a node that is no member: %v, asked %v", err, x.asked)
		}
		if err := l.Transfer(t.Context(), x.uid, "c"); err != nil || x.leader != "c" {
			t.Errorf("%v leads, %v", x.leader, err)
		}
		x.asked = nil
		x.known = "c"
		if err := l.Transfer(t.Context(), x.uid, "c"); err != nil || !slices.Equal(x.asked, []string{"c status"}) {
			t.Errorf("to the leader: %v, asked %v", err, x.asked)
		}
		if moved, err := l.TransferFrom(t.Context(), x.uid, "b", "a"); moved || err != nil || x.leader != "c" {
			t.Errorf("from a node that does not lead: %v, %v", moved, err)
		}
		if moved, err := l.TransferFrom(t.Context(), x.uid, "c", "a"); !moved || err != nil || x.leader != "a" {
			t.Errorf("from the leader: %v, %v", moved, err)
		}
		x.unlinked = []id.NodeID{"b"}
		if moved, err := l.TransferFrom(t.Context(), x.uid, "b", "c"); moved || err == nil {
			t.Errorf("from a node without a link: %v, %v", moved, err)
		}
	})
}

// Nodes send one another, for a page, what was asked and what the queue knows.
func TestPeekTravels(t *testing.T) {
	cursor := quorumq.PeekFrom{Part: 2, Stage: 3, Key: 4, Skip: 5, Number: 6, Below: 7, Returns: 8}
	asked := Peek{
		From: cursor, Limit: 9, Numbers: []uint64{1, 2}, Detail: PeekHeads,
		Filter: message.Filter{
			MessageIDs: []string{"m"}, Dead: true, Death: message.DeathOrigin{Queue: "q", Reason: "expired", Exchange: "x"},
			Headers: message.Table{{Name: "k", Value: message.String("v")}},
		},
	}
	for _, p := range []Peek{asked, {Limit: 1}} {
		if got, err := PeekOf(p.wire(77)); err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("%+v became %+v, %v", p, got, err)
		}
	}
	broken := asked.wire(77)
	broken.Filter.Headers = []byte{0xff, 1}
	if _, err := PeekOf(broken); err == nil {
		t.Error("headers that cannot be read are taken")
	}
	moved := quorumq.Peeked{
		Place: quorumq.Place{Order: 1, Return: 2}, Number: 3, Priority: 4, Size: 5, At: 6, Expires: 7, DeliveryCount: 8,
		AcquiredCount: 9, Reason: quorumq.ReasonExpired, Due: 10, To: &quorumq.Destination{Kind: quorumq.ToExchange, Name: "x", Key: "k", HasKey: true},
	}
	moved.Consumer.Node = "b"
	plain := quorumq.Peeked{Number: 1}
	page := fromPage(&nodev1.PeekQueueResponse{
		Leads: true, Next: ToCursor(cursor), More: true, Looked: 12,
		Messages: []*nodev1.PeekedMessage{ToPeeked(&moved), ToPeeked(&plain)},
	})
	want := Page{Next: cursor, More: true, Looked: 12, Messages: []Peeked{{Peeked: moved}, {Peeked: plain}}}
	if !reflect.DeepEqual(page, want) {
		t.Errorf("%+v, want %+v", page, want)
	}
}

// An export takes this node's member first, and the leader's only if no other member is there.
func TestExporters(t *testing.T) {
	_, leaders := newCluster(t)
	r := &catalog.QueueRecord{Members: []id.NodeID{"c", "b", "a"}}
	for _, row := range []struct {
		leader       id.NodeID
		online, want []id.NodeID
	}{
		{"b", []id.NodeID{"a", "b", "c"}, []id.NodeID{"a", "c", "b"}},
		{"a", []id.NodeID{"a", "b", "c"}, []id.NodeID{"c", "b", "a"}},
		{"b", []id.NodeID{"b", "c"}, []id.NodeID{"c", "b"}},
		{"b", nil, []id.NodeID{"b"}},
	} {
		if got := leaders.exporters(r, &Status{Leader: row.leader, Online: row.online}); !slices.Equal(got, row.want) {
			t.Errorf("led by %s, online %v: %v, want %v", row.leader, row.online, got, row.want)
		}
	}
}
