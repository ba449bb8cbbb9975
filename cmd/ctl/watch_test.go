package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/encoding/protojson"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// What is shown of an operation while it is watched, on a terminal and elsewhere, and of
// lists, in every form: go test ./cmd/ctl -args -rewrite writes the files anew.
func TestShown(t *testing.T) {
	datadriven.RunTest(t, "testdata/operations.txt", func(t *testing.T, d *datadriven.TestData) string {
		var out bytes.Buffer
		var all []*brokerv1.Operation
		var nodes []*brokerv1.ClusterNode
		for line := range strings.Lines(d.Input) {
			o, n := &brokerv1.Operation{}, &brokerv1.ClusterNode{}
			if protojson.Unmarshal([]byte(line), o) == nil {
				all = append(all, o)
			} else if err := protojson.Unmarshal([]byte(line), n); err == nil {
				nodes = append(nodes, n)
			} else {
				d.Fatalf(t, "%v: %s", err, line)
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
				out.WriteString(strings.Join(append(nodeRow(n), startBar(n.GetStart())), " | ") + "\n")
			}
		default:
			d.Fatalf(t, "unknown command %s", d.Cmd)
		}
		return strings.NewReplacer("\r", "<cr>", "\x1b[K", "<clear>\n").Replace(out.String())
	})
}
