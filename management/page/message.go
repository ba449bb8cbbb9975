package page

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// messageRow is a message in a queue.
type messageRow struct {
	Number        uint64            `json:"number"`
	Exchange      string            `json:"exchange"`
	Key           string            `json:"routing_key"`
	Redelivered   bool              `json:"redelivered"`
	DeliveryCount uint64            `json:"delivery_count"`
	AcquiredCount uint64            `json:"acquired_count"`
	Bytes         uint64            `json:"payload_bytes"`
	AtMs          int64             `json:"at_ms"`
	Priority      int               `json:"priority"`
	ExpiresMs     int64             `json:"expires_ms"`
	DueMs         int64             `json:"due_ms"`
	ConsumerNode  string            `json:"consumer_node"`
	Reason        string            `json:"reason"`
	Destination   string            `json:"destination"`
	Annotations   exactObject       `json:"annotations"`
	Properties    messageProperties `json:"properties"`
	// Payload and Encoding, which is string or base64, are empty unless bodies were asked for.
	Payload  string `json:"payload"`
	Encoding string `json:"payload_encoding"`
}

// exactObject is a JSON object whose values are kept as they are written, so that large integers stay exact.
type exactObject map[string]json.RawMessage

// valueText is how a value is shown: a text without its quotes, everything else as JSON.
func valueText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// named is a name and a value, for tables.
type named struct{ Name, Value string }

// Sorted lists the values by name.
func (o exactObject) Sorted() (all []named) {
	for _, name := range sortedKeys(o) {
		all = append(all, named{name, string(o[name])})
	}
	return all
}

// messageProperties are the properties that a message has, with AMQP's names.
type messageProperties struct{ exactObject }

// UnmarshalJSON reads an object.
func (p *messageProperties) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &p.exactObject) }

// Text is a property as text; "" if the message does not have it.
func (p messageProperties) Text(name string) string {
	if p.exactObject[name] == nil {
		return ""
	}
	return valueText(p.exactObject[name])
}

// Plain lists the properties without the headers.
func (p messageProperties) Plain() (all []named) {
	for _, name := range propertyNames() {
		if raw, has := p.exactObject[name]; has {
			text := valueText(raw)
			if at, err := strconv.ParseInt(text, 10, 64); name == "timestamp" && err == nil {
				text += ", " + clockTime(secondsToMs(at))
			}
			all = append(all, named{name, text})
		}
	}
	return all
}

// Headers are the headers; nil if there are none, or they cannot be read.
func (p messageProperties) Headers() exactObject {
	var all exactObject
	if json.Unmarshal(p.exactObject["headers"], &all) != nil {
		return nil
	}
	return all
}

// deathsHeader has the history of a dead letter.
const deathsHeader = "x-death"

// OwnHeaders lists the headers without the history of deaths.
func (p messageProperties) OwnHeaders() []named {
	all := p.Headers()
	if p.Deaths() != nil {
		delete(all, deathsHeader)
	}
	return all.Sorted()
}

// death is a record of the history of a dead letter.
type death struct {
	Queue      string   `json:"queue"`
	Reason     string   `json:"reason"`
	Count      int64    `json:"count"`
	Time       int64    `json:"time"` // of the first one, in seconds
	Exchange   string   `json:"exchange"`
	Keys       []string `json:"routing-keys"`
	Expiration string   `json:"original-expiration"`
}

// FirstMs is when the message died of this for the first time, in milliseconds.
func (d *death) FirstMs() int64 { return secondsToMs(d.Time) }

// secondsToMs returns milliseconds; 0 for a time that no clock shows.
func secondsToMs(seconds int64) int64 {
	const year10000 = 253_402_300_800
	if seconds < 0 || seconds >= year10000 {
		return 0
	}
	return seconds * 1000
}

// Deaths is the history of a dead letter, newest first; nil without one, or if a client has sent another value in the
// header.
func (p messageProperties) Deaths() (all []death) {
	if json.Unmarshal(p.Headers()[deathsHeader], &all) != nil {
		return nil
	}
	return all
}

// propertyNames are AMQP's properties, in the order in which they are shown.
func propertyNames() []string {
	return []string{
		"message_id", "content_type", "content_encoding", "type", "correlation_id", "reply_to", "delivery_mode", "priority",
		"timestamp", "expiration", "user_id", "app_id",
	}
}

// Body is the body's bytes, if they were asked for.
func (m *messageRow) Body() []byte {
	if m.Encoding != "base64" {
		return []byte(m.Payload)
	}
	b, err := base64.StdEncoding.DecodeString(m.Payload)
	if err != nil {
		return nil // the API's base64 has no fault
	}
	return b
}

// IsText reports whether a body can be shown as text, and sent back from a form unchanged.
func (m *messageRow) IsText() bool { return isText(m.Body()) }

// isText reports whether a body is text without control characters other than tabs and newlines. Forms send carriage
// returns of their own, so a body that has some is shown as bytes.
func isText(b []byte) bool {
	return utf8.Valid(b) && !slices.ContainsFunc([]rune(string(b)), func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t'
	})
}

// previewBytes is how much of a body a list shows.
const previewBytes = 120

// Preview is the beginning of the body on one line.
func (m *messageRow) Preview() string {
	b, text := m.Body(), m.IsText()
	more := ""
	if len(b) > previewBytes {
		b, more = b[:previewBytes], "…"
	}
	if !text {
		return hex.EncodeToString(b[:min(len(b), previewBytes/4)]) + "…"
	}
	return strings.ToValidUTF8(strings.Join(strings.Fields(string(b)), " "), "") + more
}

// Bounds of what a page shows of a body.
const (
	maxFetchedBody = 4 << 20  // bytes; larger ones stay in the queue
	maxShownText   = 64 << 10 // bytes, as text or base64
	maxShownHex    = 8 << 10  // bytes, each of which takes about five characters
)

// bodyForms are the ways to show a body, as the parameter as names them.
func bodyForms() []string { return []string{"text", "json", "hex", "base64"} }

// shownBody is a body on a page.
type shownBody struct {
	As   string // one of bodyForms
	Text string
	Note string // that it is only a part
}

// showBody shows a body in a form; "" for the one that suits it.
func (m *messageRow) showBody(as string) shownBody {
	b := m.Body()
	if !slices.Contains(bodyForms(), as) {
		as = m.usualForm(b)
	}
	most := maxShownText
	if as == "hex" {
		most = maxShownHex
	}
	out := shownBody{As: as}
	if as == "json" {
		if text, ok := indented(b); ok {
			b = text
		} else {
			out.Note = "The body is no JSON."
		}
	}
	if len(b) > most {
		b, out.Note = b[:most], "These are the first "+byteSize(most)+" of "+byteSize(m.Bytes)+"."
	}
	switch as {
	case "hex":
		out.Text = hex.Dump(b)
	case "base64":
		out.Text = folded(base64.StdEncoding.EncodeToString(b))
	default:
		out.Text = strings.ToValidUTF8(string(b), "\ufffd")
	}
	return out
}

// usualForm is how a body is shown if nobody chooses.
func (m *messageRow) usualForm(b []byte) string {
	if !isText(b) {
		return "hex"
	}
	if _, is := indented(b); is && strings.Contains(m.Properties.Text("content_type"), "json") {
		return "json"
	}
	return "text"
}

// indented writes a body that is JSON with line breaks.
func indented(b []byte) ([]byte, bool) {
	if !json.Valid(b) {
		return nil, false
	}
	text, err := json.MarshalIndent(json.RawMessage(b), "", "  ")
	return text, err == nil
}

// folded breaks a long text into lines.
func folded(text string) string {
	const width = 100
	var out strings.Builder
	for len(text) > width {
		out.WriteString(text[:width])
		out.WriteByte('\n')
		text = text[width:]
	}
	out.WriteString(text)
	return out.String()
}
