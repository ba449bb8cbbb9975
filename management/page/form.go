package page

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// badForm refuses a field of a form.
func badForm(field, reason string) error {
	return &fault{Code: http.StatusBadRequest, Kind: "bad_request", Reason: "field " + strconv.Quote(field) + ": " + reason}
}

// jsonField reads a field that is a JSON object; an empty field is an empty object.
func (v *visit) jsonField(name string) (map[string]any, error) {
	return parseObject(name, v.FormValue(name))
}

// parseObject reads the text of a field that is a JSON object; no text is an empty object. Integers stay exact.
func parseObject(field, text string) (map[string]any, error) {
	out := map[string]any{}
	if strings.TrimSpace(text) == "" {
		return out, nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		why := ""
		if syntax, is := errors.AsType[*json.SyntaxError](err); is {
			why = "; at byte " + strconv.FormatInt(syntax.Offset, 10) + ": " + syntax.Error()
		}
		return nil, badForm(field, "want a JSON object such as {\"x-delivery-limit\": 20}"+why)
	}
	if d.More() {
		return nil, badForm(field, "goes on after the JSON object")
	}
	if out == nil { // null
		out = map[string]any{}
	}
	return out, nil
}

// flag reports whether a box of a form is ticked.
func (v *visit) flag(name string) bool { return v.FormValue(name) != "" }

// words reads a field with words that commas or spaces separate. It is never nil, as the API leaves alone what is null.
func (v *visit) words(name string) []string {
	out := strings.FieldsFunc(v.FormValue(name), func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	slices.Sort(out)
	return slices.Compact(out)
}
