package client

import (
	"fmt"
	"strings"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Outcome is the outcome of a publish as a whole.
type Outcome uint8

// The outcomes.
const (
	// Confirmed: all queues that the message was routed to have it on a majority of their members'
	// disks; or it was routed to none and was not mandatory (PUB-3, PUB-4).
	Confirmed Outcome = iota + 1
	// Rejected: at least one queue did not take the message; see Rejections.
	Rejected
	// Returned: the message is mandatory and was routed to no queue.
	Returned
	// Invalid: the message itself is at fault; nothing was stored.
	Invalid
)

// String returns the outcome in lower case.
func (o Outcome) String() string {
	names := [...]string{"unknown", "confirmed", "rejected", "returned", "invalid"}
	if int(o) >= len(names) {
		return names[0]
	}
	return names[o]
}

// Result is the outcome of publishing a message, with its details.
type Result struct {
	Outcome    Outcome
	Queues     uint32 // how many have stored it
	Rejections []Rejection
}

// Rejection names a queue that refused a message, and the reason: maxlen, unavailable or no_space
// (it will not be stored later), or unknown (it may be stored).
type Rejection struct {
	Queue  string
	Cause  string
	Reason string // with no_space: which nodes lack what, and the remedy
}

// NotConfirmedError is the error of a message that was rejected or returned.
type NotConfirmedError struct{ Result Result }

// Error names the outcome and the queues.
func (e *NotConfirmedError) Error() string {
	if e.Result.Outcome == Returned {
		return "client: message returned: no queue is bound for its exchange and routing key"
	}
	why := make([]string, 0, len(e.Result.Rejections))
	for _, r := range e.Result.Rejections {
		text := fmt.Sprintf("queue %q: %s", r.Queue, r.Cause)
		if r.Reason != "" {
			text += ": " + r.Reason
		}
		why = append(why, text)
	}
	return "client: message rejected: " + strings.Join(why, ", ")
}

// resultFromProto returns an error for everything but Confirmed: *Error for Invalid,
// *NotConfirmedError otherwise.
func resultFromProto(p *brokerv1.PublishResult) (Result, error) {
	r := Result{Queues: p.GetQueues()}
	for _, x := range p.GetRejections() {
		cause := strings.ToLower(strings.TrimPrefix(x.GetCause().String(), "CAUSE_"))
		r.Rejections = append(r.Rejections, Rejection{Queue: x.GetQueue(), Cause: cause, Reason: x.GetReason()})
	}
	switch p.GetResult() {
	case brokerv1.PublishResult_RESULT_CONFIRMED:
		r.Outcome = Confirmed
		return r, nil
	case brokerv1.PublishResult_RESULT_INVALID:
		r.Outcome = Invalid
		return r, fromDetail(p.GetError())
	case brokerv1.PublishResult_RESULT_RETURNED:
		r.Outcome = Returned
	case brokerv1.PublishResult_RESULT_REJECTED:
		r.Outcome = Rejected
	default:
		return r, fmt.Errorf("client: broker answered with the unknown result %v: %w", p.GetResult(), ErrUnknownOutcome)
	}
	return r, &NotConfirmedError{Result: r}
}
