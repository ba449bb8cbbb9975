package catalog

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
)

// indexed is an index and the bindings that it has.
type indexed struct {
	index
	has map[string]*Binding // by identity
}

func (x indexed) with(b *Binding) indexed {
	has := maps.Clone(x.has)
	has[b.identity()] = b
	return indexed{x.index.with(b, b.identity(), targetOf(b)), has}
}

func (x indexed) without(b *Binding) indexed {
	has := maps.Clone(x.has)
	delete(has, b.identity())
	return indexed{x.index.without(b, b.identity()), has}
}

func targetOf(b *Binding) target {
	n, _ := strconv.Atoi(b.Destination)
	return target{uid: id.QueueUID(n)}
}

// taken is what a message takes, by what the index knows the bindings by, and the queues.
func taken(x index, p *Publication) string {
	t := &trace{steps: []traced{{taken: map[string]struct{}{}}}}
	w := &walk{trace: t}
	x.match(p, w)
	slices.Sort(w.dst)
	return fmt.Sprintf("%q %v", slices.Sorted(maps.Keys(t.steps[0].taken)), w.dst)
}

// EX-7 to EX-9, EX-14: whatever the type, an index routes by the bindings that it has, in whatever order
// they came and whatever went; one that was made before stays as it is; and what it takes it names as
// knownBy does.
func TestIndex(t *testing.T) {
	t.Parallel()
	var bindings []*Binding
	for i := range 24 {
		bindings = append(bindings, &Binding{
			Source: "x", Destination: strconv.Itoa(1 + i%8), Key: strconv.Itoa(1 + i/8),
			Arguments: message.Table{{Name: "n", Value: message.Int64(int64(i % 4))}},
		})
	}
	var messages []*Publication
	for i := range 60 {
		messages = append(messages, &Publication{
			Keys: []string{strconv.Itoa(i % 5)}, Headers: message.Table{{Name: "n", Value: message.Int64(int64(i % 6))}}, Chance: uint64(i),
			Local: func(q id.QueueUID) bool { return i%3 > 0 || q%2 == 0 },
		})
	}
	for k := range exchangeKinds {
		kind := &exchangeKinds[k]
		t.Run(string(kind.name), func(t *testing.T) {
			t.Parallel()
			empty, err := kind.empty(Error{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			route := func(x index) (all []string) {
				for _, p := range messages {
					all = append(all, taken(x, p))
				}
				return all
			}
			routed, chance := false, rand.New(rand.NewPCG(1, uint64(k)))
			for range 20 {
				x := indexed{empty, map[string]*Binding{}}
				for range 40 {
					b := bindings[chance.IntN(len(bindings))]
					if err := x.checkBinding(Error{}, (*Bind)(b)); err != nil {
						t.Fatal(err)
					}
					before, was := x, route(x.index)
					if _, has := x.has[b.identity()]; has {
						x = x.without(b)
					} else {
						x = x.with(b)
					}
					if !slices.Equal(route(before.index), was) {
						t.Fatal("an index that was made before has changed")
					}
				}
				fresh := indexed{empty, map[string]*Binding{}}
				names := map[string]bool{}
				for _, b := range x.has { // in any order
					fresh = fresh.with(b)
					names[strconv.Quote(x.knownBy(b))] = true
				}
				got, want := route(x.index), route(fresh.index)
				for i := range got {
					if got[i] != want[i] {
						t.Fatalf("it takes %s, made anew %s", got[i], want[i])
					}
				}
				if len(names) != len(x.has) {
					t.Fatalf("%d bindings are known by %d names", len(x.has), len(names))
				}
				routed = routed || slices.ContainsFunc(route(x.index), func(s string) bool { return s != "[] []" })
				for _, b := range x.has {
					x = x.without(b)
				}
				if slices.ContainsFunc(route(x.index), func(s string) bool { return s != "[] []" }) {
					t.Fatal("it takes bindings that are gone")
				}
			}
			if !routed {
				t.Error("no message took a binding")
			}
		})
	}
}
