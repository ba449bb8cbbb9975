package message

import "testing"

func TestFilter(t *testing.T) {
	m := &Message{
		Properties: Properties{MessageID: "m1"},
		Headers:    Table{{Name: "kind", Value: String("order")}, {Name: "n", Value: Int64(7)}},
		Deaths: []Death{
			{Queue: "b", Reason: "expired", Exchange: "y"}, {Queue: "a", Reason: "rejected", Exchange: "x"},
		},
		FirstDeath: DeathOrigin{Queue: "a", Reason: "rejected", Exchange: "x"},
	}
	for name, c := range map[string]struct {
		f    Filter
		want bool
	}{
		"all":                      {Filter{}, true},
		"its id":                   {Filter{MessageIDs: []string{"m0", "m1"}}, true},
		"another id":               {Filter{MessageIDs: []string{"m0", ""}}, false},
		"a header":                 {Filter{Headers: Table{{Name: "kind", Value: String("order")}}}, true},
		"a header of equal class":  {Filter{Headers: Table{{Name: "n", Value: Uint8(7)}}}, true},
		"a header of another kind": {Filter{Headers: Table{{Name: "n", Value: String("7")}}}, false},
		"one of two headers":       {Filter{Headers: Table{{Name: "kind", Value: String("order")}, {Name: "m", Value: Null()}}}, false},
		"any value":                {Filter{Headers: Table{{Name: "n", Value: Null()}}}, true},
		"a header of its deaths":   {Filter{Headers: Table{{Name: "x-first-death-queue", Value: String("a")}}}, true},
		"a death":                  {Filter{Death: DeathOrigin{Queue: "a"}}, true},
		"a death by its exchange":  {Filter{Death: DeathOrigin{Reason: "expired", Exchange: "y"}}, true},
		"parts of two deaths":      {Filter{Death: DeathOrigin{Queue: "a", Reason: "expired"}}, false},
		"dead":                     {Filter{Dead: true}, true},
		"all at once":              {Filter{MessageIDs: []string{"m1"}, Death: DeathOrigin{Queue: "b"}, Dead: true}, true},
		"one of them does not hold": {
			Filter{MessageIDs: []string{"m1"}, Headers: Table{{Name: "none", Value: Null()}}, Dead: true}, false,
		},
	} {
		if got := c.f.Matches(m); got != c.want {
			t.Errorf("%s: chosen %t, want %t", name, got, c.want)
		}
		if c.f.Empty() != (name == "all") {
			t.Errorf("%s: counts as empty: %t", name, c.f.Empty())
		}
	}
	if f := (Filter{Dead: true}); f.Matches(&Message{}) {
		t.Error("a message without death counts as dead")
	}
	if f := (Filter{MessageIDs: []string{""}}); f.Matches(&Message{}) {
		t.Error("no id counts as an id")
	}
}
