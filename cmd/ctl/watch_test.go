package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/quorate/quorate/client"
)

// ofPlain is plain the other way, for the fields that tests need.
func ofPlain[T any](t *testing.T, line string) (of T) {
	t.Helper()
	var given map[string]any
	if err := json.Unmarshal([]byte(line), &given); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	fill(reflect.ValueOf(&of).Elem(), given)
	return of
}

func fill(to reflect.Value, given map[string]any) {
	for i := range to.NumField() {
		name := to.Type().Field(i).Tag.Get("api")
		v, ok := given[name]
		if !ok {
			continue
		}
		switch x := v.(type) {
		case map[string]any:
			to.Field(i).Set(reflect.New(to.Field(i).Type().Elem()))
			fill(to.Field(i).Elem(), x)
		case float64:
			switch field := to.Field(i).Addr().Interface().(type) {
			case *time.Time:
				*field = time.UnixMilli(int64(x))
			case *time.Duration:
				unit := time.Millisecond
				if strings.HasSuffix(name, "_us") {
					unit = time.Microsecond
				}
				*field = time.Duration(x) * unit
			default:
				to.Field(i).Set(reflect.ValueOf(x).Convert(to.Field(i).Type()))
			}
		default:
			to.Field(i).Set(reflect.ValueOf(x).Convert(to.Field(i).Type()))
		}
	}
}

// What is shown of an operation while it is watched, on a terminal and elsewhere, and of
// lists, in every form: go test ./cmd/ctl -args -rewrite writes the files anew.
func TestShown(t *testing.T) {
	datadriven.RunTest(t, "testdata/operations.txt", func(t *testing.T, d *datadriven.TestData) string {
		var out bytes.Buffer
		var all []client.Operation
		var nodes []client.ClusterNode
		for line := range strings.Lines(d.Input) {
			if d.Cmd == "nodes" {
				nodes = append(nodes, ofPlain[client.ClusterNode](t, line))
			} else {
				all = append(all, ofPlain[client.Operation](t, line))
			}
		}
		switch d.Cmd {
		case "watch":
			w := &watcher{out: &out, bar: d.HasArg("terminal"), percent: -1}
			for _, o := range all {
				w.show(o)
			}
			w.end()
		case "list":
			s := &session{}
			d.ScanArgs(t, "output", &s.output)
			if err := printList(s, &out, operationHeader(), all, operationRow); err != nil {
				d.Fatalf(t, "%v", err)
			}
		case "nodes":
			for _, n := range nodes {
				out.WriteString(strings.Join(append(nodeRow(n), startBar(n.Start)), " | ") + "\n")
			}
		default:
			d.Fatalf(t, "unknown command %s", d.Cmd)
		}
		return strings.NewReplacer("\r", "<cr>", "\x1b[K", "<clear>\n").Replace(out.String())
	})
}
