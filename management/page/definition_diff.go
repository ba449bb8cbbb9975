package page

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// fieldChange is a field of an object that a document has otherwise than the cluster.
type fieldChange struct{ Field, Now, Document string }

// definitionLists are the lists of a document, with the fields that name an object in each.
func definitionLists() map[string][]string {
	return map[string][]string{
		"users": {"name"}, "vhosts": {"name"}, "permissions": {"vhost", "user"}, "topic_permissions": {"vhost", "user", "exchange"},
		"parameters": {"vhost", "component", "name"}, "global_parameters": {"name"}, "policies": {"vhost", "name"},
		"queues": {"vhost", "name"}, "exchanges": {"vhost", "name"},
		"bindings": {"vhost", "source", "destination", "destination_type", "routing_key", "arguments"},
	}
}

// eachDefinition calls each for the objects of a document, one at a time: a document may be large.
func eachDefinition(document []byte, each func(list string, i int, object map[string]any)) error {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	if _, err := d.Token(); err != nil { // {
		return err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		list, _ := key.(string)
		if definitionLists()[list] == nil {
			var skipped json.RawMessage
			if err := d.Decode(&skipped); err != nil {
				return err
			}
			continue
		}
		open, err := d.Token()
		if err != nil {
			return err
		}
		if open != json.Delim('[') { // null, which is no list
			continue
		}
		for i := 0; d.More(); i++ {
			var object map[string]any
			if err := d.Decode(&object); err != nil {
				return err
			}
			each(list, i, object)
		}
		if _, err := d.Token(); err != nil { // ]
			return err
		}
	}
	return nil
}

// identityOf names an object among those of its list; vhost is that of objects that name none.
func identityOf(list string, object map[string]any, vhost string) string {
	var b strings.Builder
	b.WriteString(list)
	for _, field := range definitionLists()[list] {
		value := object[field]
		if field == "vhost" && value == nil {
			value = vhost
		}
		b.WriteString("\x00" + plainJSON(value))
	}
	return b.String()
}

// plainJSON writes a value on a line, with sorted names, so that equal values are equal texts. What is missing is as
// good as empty: documents leave out what exports write.
func plainJSON(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case string:
		return x
	case bool:
		if !x {
			return ""
		}
	case []any:
		if len(x) == 0 {
			return ""
		}
	case map[string]any:
		if len(x) == 0 {
			return ""
		}
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "" // it was read from JSON
	}
	return string(b)
}

// compareFields finds out in which fields the objects that are there differ from the document.
func (v *visit) compareFields(document []byte, vhost string, objects []*imposed) error {
	wanted := map[string]*imposed{}
	for _, o := range objects {
		if o.Outcome == "different" {
			wanted[o.Path] = o
		}
	}
	type pair struct {
		is  *imposed
		has map[string]any
	}
	named := map[string]pair{}
	if err := eachDefinition(document, func(list string, i int, object map[string]any) {
		if o := wanted["$."+list+"["+strconv.Itoa(i)+"]"]; o != nil {
			named[identityOf(list, object, vhost)] = pair{o, object}
		}
	}); err != nil {
		return &fault{Code: http.StatusBadRequest, Kind: "bad_request", Reason: "the document cannot be compared: " + err.Error()}
	}
	a, err := v.exchange(http.MethodGet, "/api/definitions", nil, nil)
	if err != nil {
		return err
	}
	return eachDefinition(a.body.Bytes(), func(list string, _ int, object map[string]any) {
		if p, is := named[identityOf(list, object, "")]; is {
			p.is.Fields = changesOf(object, p.has)
		}
	})
}

// notCompared are fields that an import leaves to the cluster, or that another field says again.
func notCompared() []string { return []string{"declared_by", "vhost"} }

// secretFields are not shown, though an export has them.
func secretFields() []string { return []string{"password", "password_hash"} }

// changesOf compares an object that is there with that of a document; objects in it field by field.
func changesOf(now, document map[string]any) (all []fieldChange) {
	names := maps.Clone(now)
	if names == nil {
		names = map[string]any{}
	}
	maps.Copy(names, document)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, b := plainJSON(now[name]), plainJSON(document[name])
		inNow, _ := now[name].(map[string]any)
		inDocument, _ := document[name].(map[string]any)
		switch {
		case a == b || slices.Contains(notCompared(), name):
		case slices.Contains(secretFields(), name):
			all = append(all, fieldChange{Field: name, Document: "another one"})
		case inNow != nil && b == "" || inDocument != nil && a == "" || inNow != nil && inDocument != nil:
			for _, x := range changesOf(inNow, inDocument) {
				x.Field = name + "." + x.Field
				all = append(all, x)
			}
		default:
			all = append(all, fieldChange{name, cmp.Or(a, "nothing"), cmp.Or(b, "nothing")})
		}
	}
	return all
}
