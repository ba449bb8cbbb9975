package conformance

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"
)

// longBody is the length in bytes above which scripts show a body by its size and hash.
const longBody = 100

// generated matches names that servers generate.
var generated = regexp.MustCompile(`amq\.(gen-|ctag-|rabbitmq\.reply-to\.)[A-Za-z0-9_+/=.-]+`)

// lines writes an answer in the form that scripts have.
func (p *player) lines(do string, a Answer, args map[string]any) []string {
	var out []string
	for _, m := range a.Returned {
		out = append(out, fmt.Sprintf("returned %d %s %s", m.Code, m.Text, p.message(m, args)))
	}
	switch {
	case a.Broken != "":
		out = append(out, "broken: "+a.Broken)
	case a.Fault != nil:
		out = append(out, fmt.Sprintf("%s %d %s", a.Fault.Scope, a.Fault.Code, a.Fault.Text))
	case a.Empty:
		out = append(out, "empty")
	case len(a.Got) > 0:
		for _, m := range a.Got {
			out = append(out, p.message(m, args))
		}
	case a.Confirm != "":
		out = append(out, a.Confirm)
	case a.State != "":
		out = append(out, a.State)
	case do == "queue.declare" && a.Messages != nil && a.Consumers != nil:
		out = append(out, fmt.Sprintf("ok %s ready=%d consumers=%d", a.Queue, *a.Messages, *a.Consumers))
	case a.Messages != nil:
		out = append(out, fmt.Sprintf("ok %d", *a.Messages))
	case a.Tag != "":
		out = append(out, "ok "+a.Tag)
	case len(out) == 0:
		out = append(out, "ok")
	}
	for i, l := range out {
		l = generated.ReplaceAllString(l, "amq.${1}…")
		out[i] = strings.ReplaceAll(l, p.prefix, "$")
	}
	return out
}

// message writes a message: its tag and body, and the parts that the command asks to show.
func (p *player) message(m Message, args map[string]any) string {
	text := fmt.Sprintf("%q", m.Body)
	if len(m.Body) > longBody {
		text = fmt.Sprintf("%d bytes %x", len(m.Body), sha256.Sum256([]byte(m.Body)))[:30]
	}
	if m.Tag != 0 {
		text = fmt.Sprintf("[%d] %s", m.Tag, text)
	}
	if m.Redelivered {
		text += " redelivered"
	}
	show, _ := args["show"].(string)
	for _, what := range strings.FieldsFunc(show, func(r rune) bool { return r == ',' }) {
		switch what {
		case "from":
			text += fmt.Sprintf(" from %s key %s", orDefault(m.Exchange), m.Key)
		case "props":
			text += " props " + compact(m.Properties)
		case "headers":
			text += " headers " + compact(timeless(m.Headers))
		default:
			text += " " + what + " " + compact(timeless(m.Headers[what]))
		}
	}
	return text
}

// orDefault gives a name to the default exchange, whose own name is empty.
func orDefault(exchange string) string {
	if exchange == "" {
		return "(default)"
	}
	return exchange
}

// timeless leaves out times, which differ from run to run.
func timeless(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		delete(out, "time")
		for k := range out {
			out[k] = timeless(out[k])
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = timeless(v[i])
		}
		return out
	}
	return v
}

// compact writes a value as JSON, with members in the order of their names.
func compact(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}

// number converts a value to the form that scripts have.
func number(n int) json.Number { return json.Number(fmt.Sprint(n)) }
