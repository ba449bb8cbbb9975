package message

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Limits of a message. Those of the header table and of the deaths are also checked
// when stored bytes are decoded.
const (
	// MaxTableDepth bounds how deep tables and arrays may be nested; a header table
	// with plain values has depth 1.
	MaxTableDepth = 64
	// MaxHeaders bounds the number of fields of the header table, and of any nested one.
	MaxHeaders = 1024
	// MaxHeaderBytes bounds the encoded header table, in bytes.
	MaxHeaderBytes = 128 << 10
	// MaxDeaths bounds the number of entries of the list of deaths.
	MaxDeaths = 100
	// MaxRoutingKeys bounds the number of routing keys, CC and BCC included.
	MaxRoutingKeys = 1024
	// MaxNameBytes bounds exchange names, routing keys and properties, in bytes (C-3).
	MaxNameBytes = 255
	// MaxBodyBytes is the highest body size that can be configured (MSG-2).
	MaxBodyBytes = 512 << 20
	// DefaultMaxBodyBytes is the body size limit unless configured (MSG-2).
	DefaultMaxBodyBytes = 16 << 20
	// MaxExpirationMs is the longest expiration, ten years in milliseconds (MSG-4).
	MaxExpirationMs = 315_360_000_000
)

// FieldError is a property or header that the broker refuses (PRECONDITION_FAILED).
type FieldError struct {
	Field  string // "expiration", "header CC", ...
	Value  string // as received, quoted or cut when long
	Reason string // what is wrong and what would be right
}

// Error names the field, its value and the remedy.
func (e *FieldError) Error() string {
	return fmt.Sprintf("message: %s %s: %s", e.Field, e.Value, e.Reason)
}

// ParseExpiration reads the expiration property (MSG-4): ASCII decimal digits with an
// optional leading "+" and leading zeros, 0 to MaxExpirationMs milliseconds. Every other
// text, the empty one included, gives a *FieldError. The canonical form that is stored
// is strconv.FormatInt(ms, 10).
func ParseExpiration(s string) (ms int64, err error) {
	digits := s
	if len(digits) > 0 && digits[0] == '+' {
		digits = digits[1:]
	}
	bad := len(digits) == 0
	for i := 0; i < len(digits) && !bad; i++ {
		c := digits[i]
		if bad = c < '0' || c > '9'; bad {
			break
		}
		if ms = ms*10 + int64(c-'0'); ms > MaxExpirationMs {
			return 0, &FieldError{
				"expiration", quoteShort(s),
				fmt.Sprintf("above the highest value %d (10 years in milliseconds)", int64(MaxExpirationMs)),
			}
		}
	}
	if bad {
		return 0, &FieldError{"expiration", quoteShort(s), "want milliseconds as decimal digits, for example \"60000\""}
	}
	return ms, nil
}

// SenderSelected reads the CC and BCC headers (MSG-8). A header that is not an array
// gives a *FieldError; elements that are not strings are skipped. The caller removes BCC
// from the headers before storing: headers.Without("BCC").
func SenderSelected(headers Table) (cc, bcc []string, err error) {
	if cc, err = keysOf(headers, "CC"); err != nil {
		return nil, nil, err
	}
	if bcc, err = keysOf(headers, "BCC"); err != nil {
		return nil, nil, err
	}
	return cc, bcc, nil
}

// keysOf passes over elements that are no strings: they are no routing keys.
func keysOf(headers Table, name string) ([]string, error) {
	v, ok := headers.Get(name)
	if !ok {
		return nil, nil
	}
	elems, ok := v.AsArray()
	if !ok {
		return nil, &FieldError{"header " + name, shorten(v.String()), "want an array of routing keys, have " + v.Kind().String()}
	}
	var keys []string
	for _, e := range elems {
		if s, ok := e.AsString(); ok {
			keys = append(keys, s)
		}
	}
	return keys, nil
}

// CheckLimits returns all faults of a message against the named limits at once, each a
// *FieldError. maxBodyBytes is the configured body limit; 0 means DefaultMaxBodyBytes.
func CheckLimits(m *Message, maxBodyBytes int) error {
	if maxBodyBytes == 0 {
		maxBodyBytes = DefaultMaxBodyBytes
	}
	var f faults
	if len(m.Body) > maxBodyBytes {
		f.add(&FieldError{
			"body size", strconv.Itoa(len(m.Body)),
			fmt.Sprintf("above the limit of %d bytes", maxBodyBytes),
		})
	}
	if n := len(m.RoutingKeys); n > MaxRoutingKeys {
		f.add(&FieldError{
			"routing keys", strconv.Itoa(n),
			fmt.Sprintf("more than %d keys with CC and BCC", MaxRoutingKeys),
		})
	}
	for _, k := range m.RoutingKeys {
		f.name("routing key", k)
	}
	f.name("exchange", m.Exchange)
	f.name("content_type", m.ContentType)
	f.name("content_encoding", m.ContentEncoding)
	f.name("correlation_id", m.CorrelationID)
	f.name("reply_to", m.ReplyTo)
	f.name("message_id", m.MessageID)
	f.name("type", m.Type)
	f.name("user_id", m.UserID)
	f.name("app_id", m.AppID)
	if err := CheckTable("headers", m.Headers); err != nil {
		f.add(err)
	}
	if err := CheckTable("annotations", m.Annotations); err != nil {
		f.add(err)
	}
	return errors.Join(f...)
}

// faults gathers what is wrong. It stays nil for a good message, which is checked at every
// publish.
type faults []error

func (f *faults) add(err error) { *f = append(*f, err) }

// name refuses what has no room in a short string of AMQP.
func (f *faults) name(field, s string) {
	if len(s) > MaxNameBytes {
		f.add(&FieldError{field, quoteShort(s), fmt.Sprintf("%d bytes, the limit is %d", len(s), MaxNameBytes)})
	}
}

// CheckTable checks a table against MaxTableDepth, MaxHeaders and MaxHeaderBytes; field
// names it in the *FieldError.
func CheckTable(field string, t Table) error {
	if depth := tableDepth(t, 1); depth > MaxTableDepth {
		return &FieldError{field, "nested", fmt.Sprintf("more than %d levels deep", MaxTableDepth)}
	}
	if n := widest(t); n > MaxHeaders {
		return &FieldError{field, strconv.Itoa(n) + " fields", fmt.Sprintf("the limit is %d in one table", MaxHeaders)}
	}
	if n := tableSize(t); n > MaxHeaderBytes {
		return &FieldError{field, strconv.Itoa(n) + " bytes", fmt.Sprintf("the limit is %d bytes when stored", MaxHeaderBytes)}
	}
	return nil
}

// tableDepth stops counting just above the limit, so that its recursion is bounded.
func tableDepth(t Table, at int) int {
	deepest := at
	for i := range t {
		deepest = max(deepest, valueDepth(&t[i].Value, at))
	}
	return deepest
}

// valueDepth stops one above the limit, so that no input makes it deep.
func valueDepth(v *Value, at int) int {
	if v.nest == nil || at > MaxTableDepth {
		return at
	}
	deepest := tableDepth(v.nest.table, at+1)
	for i := range v.nest.array {
		deepest = max(deepest, valueDepth(&v.nest.array[i], at+1))
	}
	return deepest
}

// widest returns the number of fields of the largest table within t. Its callers have
// bounded the depth.
func widest(t Table) int {
	n := len(t)
	for i := range t {
		n = max(n, widestIn(&t[i].Value))
	}
	return n
}

// widestIn is 0 for what holds no tables.
func widestIn(v *Value) int {
	if v.nest == nil {
		return 0
	}
	n := widest(v.nest.table)
	for i := range v.nest.array {
		n = max(n, widestIn(&v.nest.array[i]))
	}
	return n
}

const maxQuotedBytes = 64

// quoteShort quotes s for an error text and cuts it when it is long.
func quoteShort(s string) string {
	if len(s) > maxQuotedBytes {
		return strconv.Quote(s[:runeStart(s, maxQuotedBytes)]) + "…"
	}
	return strconv.Quote(s)
}

// shorten bounds what an error quotes of a client's value.
func shorten(s string) string {
	if len(s) > maxQuotedBytes {
		return s[:runeStart(s, maxQuotedBytes)] + "…"
	}
	return s
}

// runeStart returns the start of the rune that has byte i, so that no rune is broken.
func runeStart(s string, i int) int {
	for i > 0 && !utf8.RuneStart(s[i]) {
		i--
	}
	return i
}
