package quorumq

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// jsonKeys appends the keys of a struct in JSON, one per line. The keys of a nested struct follow
// its own key.
func jsonKeys(to []string, prefix string, of reflect.Type) []string {
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		to = append(to, prefix+name)
		if f.Type.Kind() == reflect.Struct {
			to = jsonKeys(to, prefix+name+".", f.Type)
		}
	}
	return to
}

// An Overview is sent between nodes of different versions, and is stored in the notes of
// hibernating queues (docs/formats/datadir.md). So its keys never change, whatever the names of the
// fields.
func TestOverviewKeys(t *testing.T) {
	want, err := os.ReadFile("testdata/formats/overview.txt")
	if err != nil {
		t.Fatal(err)
	}
	golden, have := strings.Fields(string(want)), jsonKeys(nil, "", reflect.TypeFor[Overview]())
	for _, key := range golden {
		if !slices.Contains(have, key) {
			t.Errorf("key %s is gone: a node of another version reads nothing for it", key)
		}
	}
	for _, key := range have {
		if !slices.Contains(golden, key) {
			t.Errorf("key %s is new: add it to the golden file", key)
		}
	}
	var o Overview
	if err := json.Unmarshal([]byte(`{"Dissolving":true}`), &o); err != nil || !o.DrainDeleting {
		t.Errorf("a queue that is being emptied for its deletion is not read: %+v, %v", o, err)
	}
}
