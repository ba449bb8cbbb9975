package amqp

import (
	"cmp"
	"log/slog"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"testing"
)

func TestConfirmRuns(t *testing.T) {
	ok, no := func(tag uint64) result { return result{tag: tag} }, func(tag uint64) result { return result{tag: tag, refused: true} }
	for _, c := range []struct {
		name    string
		batches [][]result
		want    []run
	}{
		{"one", [][]result{{ok(1)}}, []run{{tag: 1, low: true}}},
		{"neighbours", [][]result{{ok(1), ok(2), ok(3)}}, []run{{tag: 3, multiple: true, low: true}}},
		{"a gap", [][]result{{ok(1), ok(3)}, {ok(2)}, {ok(4), ok(5)}}, []run{
			{tag: 1, low: true}, {tag: 3}, {tag: 2, low: true}, {tag: 5, multiple: true, low: true},
		}},
		{"fates", [][]result{{ok(1), ok(2), no(3), no(4), ok(5)}}, []run{
			{tag: 2, multiple: true, low: true}, {tag: 4, multiple: true, refused: true, low: true}, {tag: 5, low: true},
		}},
		{"run before", [][]result{{ok(2)}, {ok(1), ok(3)}}, []run{{tag: 2}, {tag: 1, low: true}, {tag: 3, low: true}}},
	} {
		var x confirmed
		var got []run
		for _, b := range c.batches {
			got = append(got, x.decide(b)...)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Whatever the order of the results, a client learns the fate of each publish
// exactly once.
func TestConfirmsAnswerEachOnce(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		const n = 60
		tags := r.Perm(n)
		fate := map[uint64]bool{}
		var x confirmed
		got := map[uint64]bool{}
		for len(tags) > 0 {
			size := min(1+r.IntN(9), len(tags))
			var batch []result
			for _, tag := range tags[:size] {
				b := result{tag: uint64(tag) + 1, refused: r.IntN(4) == 0}
				fate[b.tag] = b.refused
				batch = append(batch, b)
			}
			tags = tags[size:]
			slices.SortFunc(batch, func(a, b result) int { return cmp.Compare(a.tag, b.tag) })
			for _, run := range x.decide(batch) {
				first := run.tag
				if run.multiple {
					first = 1
				}
				for tag := first; tag <= run.tag; tag++ {
					if _, known := got[tag]; known && !run.multiple {
						t.Fatalf("seed %d: %d is run twice", seed, tag)
					} else if !known {
						got[tag] = run.refused
					}
				}
			}
		}
		if !reflect.DeepEqual(got, fate) || x.low != n || len(x.above) != 0 {
			t.Fatalf("seed %d: run %v, want %v, %+v", seed, got, fate, x)
		}
	}
}

func TestUnsettled(t *testing.T) {
	var u unsettled
	model := map[uint64]bool{}
	next := uint64(1)
	r := rand.New(rand.NewPCG(7, 7))
	for range 20_000 {
		switch r.IntN(5) {
		case 0, 1:
			next += uint64(r.IntN(3)) // auto-acked ones between them
			u.add(open{tag: next, id: next})
			model[next] = true
			next++
		case 2, 3:
			tag := uint64(r.IntN(int(next))) + 1
			got, known := u.take(nil, tag, false)
			if known != model[tag] || known && (len(got) != 1 || got[0].id != tag) {
				t.Fatalf("tag %d: %v %v", tag, got, known)
			}
			delete(model, tag)
		case 4:
			if r.IntN(20) > 0 {
				continue
			}
			tag := uint64(r.IntN(int(next)))
			got, known := u.take(nil, tag, true)
			if known != (tag == 0 || model[tag]) {
				t.Fatalf("up to %d: %v", tag, known)
			}
			if known && tag == 0 {
				tag = next
			}
			for _, o := range got {
				if !model[o.tag] || o.tag > tag {
					t.Fatalf("%d was taken up to %d", o.tag, tag)
				}
				delete(model, o.tag)
			}
			if known {
				for left := range model {
					if left <= tag {
						t.Fatalf("%d was left up to %d", left, tag)
					}
				}
			}
		}
		if len(u.all) > 2*len(model)+130 {
			t.Fatalf("%d places for %d deliveries", len(u.all), len(model))
		}
	}
	taken := u.takeAll()
	if len(taken) != len(model) || len(u.all) != 0 {
		t.Errorf("%d taken, want %d; %d left", len(taken), len(model), len(u.all))
	}
	u.putBack(taken)
	if again := u.takeAll(); len(again) != len(model) {
		t.Errorf("%d after putting %d back", len(again), len(model))
	}
}

// A connection is not read while many results of its publishes wait for the client, and continues when they have
// left.
func TestResultsThatWaitAreBounded(t *testing.T) {
	t.Parallel()
	server, client := net.Pipe()
	defer func() { _ = server.Close() }()
	defer func() { _ = client.Close() }()
	c := newConn(&Server{cfg: Config{PublishWindow: 2 * maxResults}, log: slog.New(slog.DiscardHandler)}, server)
	ch := &channel{c: c, number: 1}
	for tag := range uint64(maxResults) {
		if !c.hasRoomBeside() {
			t.Fatalf("it is not read with %d results", tag)
		}
		c.inFlight, ch.inFlight = c.inFlight+1, ch.inFlight+1
		ch.confirm(result{tag: tag + 1}, 1)
	}
	if c.hasRoomBeside() {
		t.Error("it is read whatever waits")
	}
	reads := make(chan error, 1)
	go func() { reads <- c.await(t.Context(), c.hasRoomBeside) }()
	w := &writer{c: c}
	w.confirms(ch)
	if err := <-reads; err != nil {
		t.Error(err)
	}
	ch.confirm(result{tag: maxResults + 1}, 0)
	if ch.quit(t.Context()); c.results != 0 {
		t.Errorf("%d results count when none is left", c.results)
	}
}
