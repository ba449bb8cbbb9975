package argument

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// Values are the permitted values of an argument. Its text appears in docs/semantics.md.
type Values interface {
	fmt.Stringer
	// read takes a value, or returns what it is and what is wrong with it.
	read(v message.Value) (out Value, is, fault string)
}

// Value is an argument that was read; the field of its kind is set.
type Value struct {
	Int    int64 // of an integer; of a word its index
	Text   string
	Bool   bool
	Shape  quorumq.Backoff // of a back-off, with WaitMs
	WaitMs []int64         // waits of a list, in milliseconds
}

// MaxTimeMs is the highest x-message-ttl and x-expires, ten years in milliseconds.
const MaxTimeMs int64 = 315_360_000_000

func wrongType(v message.Value, want string) (Value, string, string) {
	return Value{}, v.String(), "want " + want + ", have " + v.Kind().String()
}

// integer accepts any width (C-2), within bounds.
type integer struct {
	low, high int64
	unit      string
}

// read accepts any integer type of AMQP within the bounds; both ends are included.
func (k integer) read(v message.Value) (out Value, is, fault string) {
	if !v.IsInt() {
		return wrongType(v, "an integer")
	}
	n, ok := v.AsInt()
	switch {
	case ok && n >= k.low && n <= k.high:
		return Value{Int: n}, "", ""
	case k.high < math.MaxInt64:
		fault = fmt.Sprintf("out of range, want %d to %d", k.low, k.high)
	case k.low > math.MinInt64:
		fault = fmt.Sprintf("out of range, want %d or more (at most %d)", k.low, int64(math.MaxInt64))
	default:
		fault = "out of range of a signed 64-bit integer"
	}
	return Value{}, v.String(), fault
}

func (k integer) String() string {
	s := "integer"
	switch {
	case k.high < math.MaxInt64:
		s += fmt.Sprintf(" %d to %d", k.low, k.high)
	case k.low > math.MinInt64:
		s += fmt.Sprintf(" from %d", k.low)
	}
	if k.unit != "" {
		s += ", " + k.unit
	}
	return s
}

// oneOf accepts one of some words.
type oneOf struct {
	words []string
	// foreign is a further word of RabbitMQ's, and instead advises users of it.
	foreign, instead string
}

// read accepts one of the words; Value.Int is its index. For the foreign word, one that RabbitMQ
// knows, the fault names the replacement.
func (k oneOf) read(v message.Value) (out Value, is, fault string) {
	s, ok := v.AsString()
	if !ok {
		return wrongType(v, "a string")
	}
	for i, w := range k.words {
		if s == w {
			return Value{Int: int64(i), Text: s}, "", ""
		}
	}
	if k.foreign != "" && s == k.foreign {
		return Value{}, strconv.Quote(s), k.instead
	}
	return Value{}, strconv.Quote(s), "unknown, want one of " + strings.Join(k.words, ", ")
}

func (k oneOf) String() string { return "`" + strings.Join(k.words, "`, `") + "`" }

// text accepts strings up to a length in bytes.
type text struct {
	most int
	note string
}

// read accepts a string of at most k.most bytes. The fault names the length and not the text, which
// may be long.
func (k text) read(v message.Value) (out Value, is, fault string) {
	s, ok := v.AsString()
	if !ok {
		return wrongType(v, "a string")
	}
	if len(s) > k.most {
		return Value{}, strconv.Itoa(len(s)) + " bytes", fmt.Sprintf("the limit is %d bytes", k.most)
	}
	return Value{Text: s}, "", ""
}

func (k text) String() string { return "string" + k.note }

// boolean is the kind of an argument that is true or false; the words "true" and "false" are
// refused.
type boolean struct{}

// read accepts a boolean of AMQP alone.
func (boolean) read(v message.Value) (out Value, is, fault string) {
	b, ok := v.AsBool()
	if !ok {
		return wrongType(v, "a boolean")
	}
	return Value{Bool: b}, "", ""
}

func (boolean) String() string { return "boolean" }

// anything accepts every value unseen.
type anything struct{}

func (anything) read(message.Value) (out Value, is, fault string) { return Value{}, "", "" }

func (anything) String() string { return "any" }

// backoff is the shape of delayed retry: a word, or a list of waits (DR-7).
type backoff struct{}

// read accepts linear, exponential, or a comma-separated list of at most quorumq.MaxRetrySteps
// waits, in the notation of time.ParseDuration and stored in milliseconds.
func (backoff) read(v message.Value) (out Value, is, fault string) {
	s, ok := v.AsString()
	switch {
	case !ok:
		return wrongType(v, "a string")
	case s == "linear":
		return Value{Shape: quorumq.BackoffLinear}, "", ""
	case s == "exponential":
		return Value{Shape: quorumq.BackoffExponential}, "", ""
	}
	out.Shape = quorumq.BackoffSteps
	words := strings.Split(s, ",")
	for _, w := range words {
		d, err := time.ParseDuration(strings.TrimSpace(w))
		if err != nil || d < time.Millisecond || d.Milliseconds() > MaxTimeMs || len(words) > quorumq.MaxRetrySteps {
			return Value{}, strconv.Quote(s), `want linear, exponential, or a list of at most 16 waits from 1ms on such as "1s,5s,30s"`
		}
		out.WaitMs = append(out.WaitMs, d.Milliseconds())
	}
	return out, "", ""
}

func (backoff) String() string {
	return "`linear`, `exponential`, or a list of at most 16 waits, `\"1s,5s,30s\"`"
}
