package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// What commands print for programs, of a node that runs: docs/quoratectl.md promises that it stays as it is.
// go test ./cmd/ctl -args -rewrite writes the file anew. Of what differs from run to run the kind is left.
func TestJSON(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a node: not in short mode")
	}
	t.Setenv(contextsEnv, t.TempDir()+"/contexts.yaml")
	c := testcluster.Start(t, 1)
	datadriven.RunTest(t, "testdata/json.txt", func(t *testing.T, d *datadriven.TestData) string {
		var out bytes.Buffer
		for line := range strings.Lines(d.Input) {
			args := strings.Fields(line)
			if d.Cmd == "node" {
				args = append(args, "-a", c.Addrs()[0])
			}
			var errs bytes.Buffer
			if code := run(t.Context(), args, &out, &errs); code != 0 {
				d.Fatalf(t, "quoratectl %s: %d: %s", line, code, &errs)
			}
		}
		if d.HasArg("first") { // clients of before may not be gone yet
			var all []any
			if err := json.Unmarshal(out.Bytes(), &all); err != nil {
				d.Fatalf(t, "%v: %s", err, &out)
			}
			out.Reset()
			if err := (&session{output: outputJSON}).encode(&out, all[:1]); err != nil {
				d.Fatalf(t, "%v", err)
			}
		}
		if strings.Contains(d.Input, "yaml") {
			return out.String()
		}
		return settled(t, out.Bytes())
	})
}

// settled replaces what differs from run to run by its kind, and keeps the form: lines, or one indented value.
func settled(t *testing.T, text []byte) string {
	t.Helper()
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if bytes.Contains(text, []byte("\n ")) {
		e.SetIndent("", "  ")
	}
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var v any
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			return out.String()
		}
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if err := e.Encode(settle("", v)); err != nil {
			t.Fatal(err)
		}
	}
}

// fleeting are the names of what differs from run to run.
func fleeting() []string {
	return []string{
		"applied_index", "catalog_index", "commit_index", "epoch", "floor_bytes", "free_bytes", "id", "last_index", "low_bytes", "oldest_message_age_ms",
		"product", "received_bytes", "sent_bytes", "term", "token", "uid", "view_age_ms",
	}
}

func settle(name string, v any) any {
	switch x := v.(type) {
	case map[string]any:
		if name == "counters" || name == "clock" {
			return "<object>"
		}
		for k := range x {
			x[k] = settle(k, x[k])
		}
	case []any:
		for i := range x {
			x[i] = settle(name, x[i])
		}
	case float64:
		if slices.Contains(fleeting(), name) || x > float64(time.Hour.Milliseconds()) {
			return "<number>"
		}
	case string:
		if slices.Contains(fleeting(), name) && x != "node-0" || strings.HasPrefix(x, "127.0.0.1:") || len(x) > 1 && x[0] == '/' {
			return "<string>"
		}
	case nil:
		if name == "clock" {
			return "<object>"
		}
	}
	return v
}

// The page names every field of every object.
func TestDocumentedFields(t *testing.T) {
	text, err := os.ReadFile("../../docs/quoratectl.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string][]string{}
	field := regexp.MustCompile("`([a-z0-9_]+)`")
	for _, m := range regexp.MustCompile(`(?m)^\| ([A-Z]\w+) \| (.*) \|$`).FindAllStringSubmatch(string(text), -1) {
		for _, f := range field.FindAllStringSubmatch(m[2], -1) {
			documented[m[1]] = append(documented[m[1]], f[1])
		}
	}
	if len(documented) < 35 {
		t.Errorf("%d objects are documented", len(documented))
	}
	for name, fields := range documented {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName("quorate.broker.v1." + name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		m, _ := d.(protoreflect.MessageDescriptor)
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			if !slices.Contains(fields, string(f.Name())) {
				t.Errorf("%s: docs/quoratectl.md lacks %s", name, f.Name())
			}
			if to := f.Message(); to != nil && !f.IsMap() && documented[string(to.Name())] == nil && to.Name() != "Table" && f.Name() != "message" {
				t.Errorf("docs/quoratectl.md lacks the object %s", to.Name())
			}
		}
		if m.Fields().Len() != len(fields) {
			t.Errorf("%s has %d fields, %d are documented", name, m.Fields().Len(), len(fields))
		}
	}
}

// Values of tables that JSON has no form for.
func TestPlainTable(t *testing.T) {
	text, err := json.Marshal(plainTable(client.Table{
		"void": nil, "bytes": []byte("\xff"), "time": time.Unix(1, 0), "decimal": client.Decimal{Scale: 2, Value: 314}, "nan": math.NaN(),
		"infinite": math.Inf(-1), "float": float32(0.5), "large": uint64(math.MaxUint64), "list": []any{int8(-1), client.Table{"in": true}},
	}))
	want := `{"bytes":"/w==","decimal":3.14,"float":0.5,"infinite":"-Infinity","large":18446744073709551615,"list":[-1,{"in":true}],` +
		`"nan":"NaN","time":"1970-01-01T00:00:01Z","void":null}`
	if err != nil || string(text) != want {
		t.Errorf("%v: %s, want %s", err, text, want)
	}
}

// A value of an enumeration that this build does not know is shown as its number, and an unset one as null.
func TestPlainEnum(t *testing.T) {
	for n, want := range map[client.OperationState]string{"": "null", client.OperationDone: `"done"`, "77": "77"} {
		if got, err := json.Marshal(plain(client.Operation{State: n})["state"]); err != nil || string(got) != want {
			t.Errorf("%q: %s, %v, want %s", n, got, err, want)
		}
	}
}
