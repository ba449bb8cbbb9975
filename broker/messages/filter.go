package messages

import (
	"strconv"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// MaxPeekLooked limits how many messages one call that looks at a queue goes through.
const MaxPeekLooked = 20_000

// Filter chooses messages that meet all conditions that are set. The zero value chooses all messages.
type Filter struct {
	// Numbers are numbers of messages, as broker.Peeked has them; a message must have one of them.
	Numbers []uint64
	message.Filter
}

// Validate refuses a filter that is too large.
func (f *Filter) Validate() error {
	const most = 1000
	if len(f.Numbers) > most || len(f.MessageIDs) > most {
		return &failure.Error{Class: failure.PreconditionFailed, Kind: "filter", Arg: "numbers", Reason: "more than 1000 numbers or message ids; ask for fewer at a time"}
	}
	if err := message.CheckTable("headers", f.Headers); err != nil {
		return failure.Translate(err, failure.Error{Kind: "filter"})
	}
	return nil
}

// DestinationText shows a destination in one line.
func DestinationText(d *quorumq.Destination) string {
	s := d.Kind.String()
	if d.Kind == quorumq.ToQueue || d.Kind == quorumq.ToExchange {
		s += " " + strconv.Quote(d.Name)
	}
	if d.HasKey {
		s += ", key " + strconv.Quote(d.Key)
	}
	return s
}
