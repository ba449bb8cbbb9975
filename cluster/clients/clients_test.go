package clients

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quorate/quorate/id"
)

// connectionOf counts the connections of a user.
func connectionOf(user string) Count { return Count{Kind: UserConnections, Name: user} }

// VH-4: a connection counts once towards something, however often and from wherever it enters, until it ends.
func TestConnectionCountsOnce(t *testing.T) {
	r := New()
	c := r.Connect()
	admitted := 0
	enter := func() (bool, error) {
		return c.Enter(connectionOf("u"), func() error {
			admitted++
			r.Add(connectionOf("u"), 1)
			return nil
		})
	}
	steps := []struct {
		what  string
		do    func() (bool, error)
		first bool
		fails bool
		count int64
	}{
		{"refused", func() (bool, error) {
			return c.Enter(connectionOf("u"), func() error { return errors.New("above the limit") })
		}, false, true, 0},
		{"first", enter, true, false, 1},
		{"again", enter, false, false, 1},
		{"closed", func() (bool, error) { c.Close(); return false, nil }, false, false, 0},
		{"after the end", enter, false, false, 0},
	}
	for _, s := range steps {
		first, err := s.do()
		if got := r.Usage("u", "", 0).UserConnections; first != s.first || (err != nil) != s.fails || got != s.count {
			t.Errorf("%s: first %v, error %v, %d counted; want %v, %v, %d", s.what, first, err, got, s.first, s.fails, s.count)
		}
	}
	if admitted != 2 {
		t.Errorf("%d were admitted, want the first one and the one that came too late", admitted)
	}
}

// Calls of one connection that come at the same time count it once, and none of them waits for ever.
func TestConnectionEntersAtOnce(t *testing.T) {
	r := New()
	c := r.Connect()
	var firsts atomic.Int32
	var calls sync.WaitGroup
	for range 50 {
		calls.Go(func() {
			first, err := c.Enter(connectionOf("u"), func() error {
				r.Add(connectionOf("u"), 1)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			if first {
				firsts.Add(1)
			}
		})
	}
	calls.Wait()
	if got := r.Usage("u", "", 0).UserConnections; got != 1 || firsts.Load() != 1 {
		t.Errorf("%d counted, %d first", got, firsts.Load())
	}
}

// Each kind has its own place in Usage, and what is counted of other names is not in it.
func TestUsage(t *testing.T) {
	r := New()
	for k := range CountKinds {
		of := Count{Kind: k, Name: "a"}
		if k == QueueConsumers {
			of = Count{Kind: k, Queue: 7}
		}
		other := of
		other.Name, other.Queue = other.Name+"x", other.Queue+1
		r.Add(other, 100)
		r.Add(of, int64(k)+2)
		if n := r.Add(of, -1); n != int64(k)+1 {
			t.Errorf("%d are left of kind %d", n, k)
		}
	}
	want := Usage{
		UserConnections: 1, UserChannels: 2, UserConsumers: 3, VHostConnections: 4, VHostChannels: 5, VHostConsumers: 6, QueueConsumers: 7,
	}
	if got := r.Usage("a", "a", 7); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for k := range r.count {
		r.Add(k, -r.count[k])
	}
	if len(r.count) > 0 {
		t.Errorf("what is not counted any more is remembered: %v", r.count)
	}
}

// A key is that of a living connection until Close, which notifies whoever waits for ends.
func TestAlive(t *testing.T) {
	r := New()
	a, b := r.Connect(), r.Connect()
	if a.Key() == b.Key() || !r.Alive(a.Key()) || r.Alive("guessed") {
		t.Error("keys do not tell connections apart")
	}
	a.Close()
	b.Close() // whose end finds the token of the first one there, and does not wait
	select {
	case <-r.Ended():
	default:
		t.Error("nothing tells of the ends")
	}
	if r.Alive(a.Key()) || r.Alive(b.Key()) {
		t.Error("alive after Close")
	}
}

// Operators see connections that are shown, the oldest first, with the names that count them where they have none of
// their own, as text; they end one by its id, or all.
func TestShownConnections(t *testing.T) {
	r := New()
	ends := map[string][]Closing{}
	show := func(x ConnectionInfo, counted ...Count) *Connection {
		c := r.Connect()
		for _, k := range counted {
			if _, err := c.Enter(k, func() error { r.Add(k, 1); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		c.Show(func() ConnectionInfo { return x }, func(why Closing) { ends[x.Name] = append(ends[x.Name], why) })
		return c
	}
	r.Connect() // not shown
	show(ConnectionInfo{Name: "named", User: "u", VHost: "v", ClientName: "bad\xff"}, connectionOf("other"))
	shared := show(ConnectionInfo{Name: "shared"}, connectionOf("z"), connectionOf("a"), Count{Kind: VHostConnections, Name: "/"})
	for i := range 10 { // ids are numbers: 10 comes after 9
		show(ConnectionInfo{Name: fmt.Sprint("more", i)})
	}
	all := r.List("n/1/")
	var ids []string
	for i := range all {
		ids = append(ids, strings.TrimPrefix(all[i].ID, "n/1/"))
	}
	if got := strings.Join(ids, " "); got != "1 2 3 4 5 6 7 8 9 10 11 12" {
		t.Errorf("ids %s", got)
	}
	if x := all[0]; x.User != "u" || x.VHost != "v" || x.ClientName != "bad\ufffd" {
		t.Errorf("%+v", x)
	}
	if x := all[1]; x.User != "a,z" || x.VHost != "/" {
		t.Errorf("%+v", x)
	}
	why := Closing{By: "root", Reason: "enough"}
	if !r.End("n/1/", "n/1/2", why) || r.End("n/1/", "n/1/99", why) || !slices.Equal(ends["shared"], []Closing{why}) || len(ends) != 1 {
		t.Errorf("ended: %v", ends)
	}
	shared.Close()
	if r.End("n/1/", "n/1/2", why) {
		t.Error("a connection that has ended was ended again")
	}
	if r.EndAll(Closing{Reason: "the node stops"}); len(ends) != 12 || len(ends["shared"]) != 1 {
		t.Errorf("ended: %v", ends)
	}
}

// Operators see the consumers of a vhost and queue, with their connection, until they are hidden or their queue has
// ended them.
func TestConsumers(t *testing.T) {
	r := New()
	conn := r.Connect()
	conn.Show(func() ConnectionInfo { return ConnectionInfo{Name: "conn", Peer: "1.2.3.4:5"} }, func(Closing) {})
	add := func(vhost, queue, tag string, from *Connection, live bool) *Consumer {
		c := &Consumer{VHost: vhost, Queue: queue, Look: func() (ConsumerInfo, *Connection, bool) {
			return ConsumerInfo{VHost: vhost, Queue: queue, Tag: tag}, from, live
		}}
		r.ShowConsumer(c)
		return c
	}
	first := add("/", "a", "1", conn, true)
	add("/", "b", "2", nil, true)
	add("v", "a", "3", r.Connect(), true) // of a connection that is not shown
	add("/", "a", "4", conn, false)
	tags := func(vhost, queue string) string {
		var out []string
		for _, x := range r.Consumers("n/1/", vhost, queue) {
			out = append(out, x.Tag+x.Connection+x.ConnectionName+x.Peer)
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	for _, row := range []struct{ vhost, queue, want string }{
		{"", "", "1n/1/1conn1.2.3.4:5 2 3"}, {"/", "", "1n/1/1conn1.2.3.4:5 2"}, {"", "a", "1n/1/1conn1.2.3.4:5 3"}, {"/", "b", "2"}, {"w", "", ""},
	} {
		if got := tags(row.vhost, row.queue); got != row.want {
			t.Errorf("vhost %q, queue %q: %s, want %s", row.vhost, row.queue, got, row.want)
		}
	}
	if r.HideConsumer(first); tags("/", "a") != "" {
		t.Error("seen after it was hidden")
	}
}

// wants is a gate whose publishers want so many messages; it remembers what those of other nodes want.
type wants struct {
	messages float64
	others   map[id.NodeID]float64
}

func (w *wants) Figures() QuotaFigures { return QuotaFigures{Messages: w.messages} }

func (w *wants) Learn(from id.NodeID, f QuotaFigures) { w.others[from] = f.Messages }

// VH-14: an open gate learns what another node wants and answers what this one does; of others nothing is known.
func TestExchange(t *testing.T) {
	r := New()
	g := &wants{messages: 5, others: map[id.NodeID]float64{}}
	subject := QuotaSubject{User: "u"}
	ask := func(of QuotaSubject) float64 { return r.Exchange(of, "other", QuotaFigures{Messages: 3}).Messages }
	if got := ask(subject); got != 0 {
		t.Errorf("without a gate %v", got)
	}
	r.OpenGate(subject, g)
	if a, b := ask(QuotaSubject{VHost: "u"}), ask(subject); a != 0 || b != 5 || g.others["other"] != 3 {
		t.Errorf("a vhost of the name %v, the user %v, and the gate knows %v", a, b, g.others)
	}
	r.CloseGate(subject)
	if got := ask(subject); got != 0 {
		t.Errorf("after it was closed %v", got)
	}
}

// Every counter has a name, and no two the same.
func TestNamedCounters(t *testing.T) {
	var c Counters
	count := uint64(0)
	for _, v := range []reflect.Value{reflect.ValueOf(&c).Elem(), reflect.ValueOf(&c.Delivered).Elem(), reflect.ValueOf(&c.Refusals).Elem()} {
		for i := range v.NumField() {
			switch n := v.Field(i).Addr().Interface().(type) {
			case *atomic.Uint64:
				count++
				n.Store(count)
			case *Deliveries, *Refusals: // have turns of their own
			default:
				t.Fatalf("%s is no counter", v.Type().Field(i).Name)
			}
		}
	}
	seen := map[uint64]bool{}
	for _, n := range c.Named() {
		seen[n] = true
	}
	if uint64(len(seen)) != count || seen[0] {
		t.Errorf("%d counters, named %v", count, c.Named())
	}
}
