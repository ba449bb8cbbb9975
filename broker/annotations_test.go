package broker

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// DEL-11: annotations that a decision adds join those of the delivery, in the order of deliveries.
func TestNotes(t *testing.T) {
	table := func(name string) message.Table { return message.Table{{Name: name, Value: message.Bool(true)}} }
	for _, row := range []struct {
		r     quorumq.MsgIDRange
		added message.Table
		want  string
		left  int
	}{
		{quorumq.MsgIDRange{First: 1, Last: 9}, nil, "[{1 9} {}]", 0},
		{quorumq.MsgIDRange{First: 1, Last: 2}, table("x-b"), "[{1 2} {x-b=true}]", 2},
		{quorumq.MsgIDRange{First: 1, Last: 9}, table("x-b"), "[{1 2} {x-b=true}][{3 3} {x-a=true x-b=true}][{4 4} {x-b=true}]" +
			"[{5 5} {x-c=true x-b=true}][{6 9} {x-b=true}]", 0},
		{quorumq.MsgIDRange{First: 3, Last: 3}, table("x-a"), "[{3 3} {x-a=true}]", 1},
		{quorumq.MsgIDRange{First: 4, Last: 5}, table("x-b"), "[{4 4} {x-b=true}][{5 5} {x-c=true x-b=true}]", 1},
	} {
		n := annotations{3: table("x-a"), 5: table("x-c")}
		d := gateway.Decision{Kind: gateway.Requeue}
		if len(row.added) > 0 {
			d.Annotations = message.AppendTable(nil, row.added)
		}
		got := ""
		n.decide(row.r, d, row.added, func(r quorumq.MsgIDRange, d gateway.Decision) {
			var added message.Table
			if d.Annotations != nil {
				var err error
				if added, _, err = message.DecodeTable(d.Annotations); err != nil {
					t.Fatal(err)
				}
			}
			got += fmt.Sprint("[", r, " ", added, "]")
		})
		if got != row.want || len(n) != row.left {
			t.Errorf("%v with %v: %s and %d left, want %s and %d", row.r, row.added, got, len(n), row.want, row.left)
		}
	}
}
