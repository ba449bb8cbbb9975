package page

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
)

// badForm refuses a field of a form.
func badForm(field, reason string) error {
	return &fault{Code: http.StatusBadRequest, Kind: "bad_request", Reason: "field " + strconv.Quote(field) + ": " + reason}
}

// jsonField reads a field that is a JSON object; an empty field is an empty object. Integers stay exact.
func (v *visit) jsonField(name string) (map[string]any, error) {
	text := bytes.TrimSpace([]byte(v.PostFormValue(name)))
	if len(text) == 0 {
		return map[string]any{}, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	out := map[string]any{}
	if err := d.Decode(&out); err != nil {
		return nil, badForm(name, "want a JSON object such as {\"x-delivery-limit\": 20}: "+err.Error())
	}
	return out, nil
}
