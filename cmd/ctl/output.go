package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/client"
)

// parseValue reads a number or a boolean; text in double quotes is always text.
func parseValue(s string) any {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	if b, err := strconv.ParseBool(s); err == nil && (s == "true" || s == "false") {
		return b
	}
	if quoted, err := strconv.Unquote(s); err == nil && strings.HasPrefix(s, `"`) {
		return quoted
	}
	return s
}

// printRows writes a table, or the messages as JSON, one a line, or as YAML documents.
func (s *session) printRows(w io.Writer, header []string, rows [][]string, messages []proto.Message) error {
	if s.output != outputTable {
		for _, m := range messages {
			if err := s.printProto(w, m); err != nil {
				return err
			}
		}
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	printf(t, "%s\n", strings.ToUpper(strings.Join(header, "\t")))
	for _, r := range rows {
		printf(t, "%s\n", strings.Join(r, "\t"))
	}
	return t.Flush()
}

// printList writes a list with printRows: a row, or the message itself, for each.
func printList[M proto.Message](s *session, w io.Writer, header []string, all []M, row func(M) []string) error {
	rows, messages := make([][]string, len(all)), make([]proto.Message, len(all))
	for i, x := range all {
		rows[i], messages[i] = row(x), x
	}
	return s.printRows(w, header, rows, messages)
}

// printProto writes a message as JSON or YAML.
func (s *session) printProto(w io.Writer, m proto.Message) error {
	text, err := protojson.MarshalOptions{EmitUnpopulated: true, UseProtoNames: true}.Marshal(m)
	if err != nil {
		return err
	}
	// protojson varies its spacing on purpose; programs want it the same every time.
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	return s.encode(w, v)
}

// encode writes a value as a line of JSON or as a YAML document.
func (s *session) encode(w io.Writer, v any) error {
	if s.output == outputJSON {
		return json.NewEncoder(w).Encode(v)
	}
	text, err := json.Marshal(v) // for the names of its fields
	if err != nil {
		return err
	}
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		return err
	}
	printf(w, "---\n")
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	return errors.Join(e.Encode(plain), e.Close())
}

// printf writes what a command says; a reader that has gone away is no failure of the
// command.
func printf(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// received is a message as it is printed.
type received struct {
	Exchange      string         `json:"exchange"`
	RoutingKey    string         `json:"routing_key"`
	Headers       client.Table   `json:"headers,omitempty"`
	Body          string         `json:"body"`
	Binary        bool           `json:"binary,omitempty"` // body is quoted as in Go
	DeliveryCount uint32         `json:"delivery_count"`
	AcquiredCount uint32         `json:"acquired_count"`
	Deaths        []client.Death `json:"deaths,omitempty"`
}

func (s *session) printMessage(w io.Writer, r *client.Received) error {
	m := received{
		Exchange: r.Exchange, RoutingKey: r.RoutingKey, Headers: r.Headers, Body: string(r.Body),
		DeliveryCount: r.DeliveryCount, AcquiredCount: r.AcquiredCount, Deaths: r.Deaths,
	}
	if !utf8.Valid(r.Body) {
		m.Body, m.Binary = strconv.Quote(string(r.Body)), true
	}
	if s.output != outputTable {
		return s.encode(w, m)
	}
	line := m.Body
	for _, d := range r.Deaths {
		line += fmt.Sprintf("  [%s from %s, %d times]", d.Reason, d.Queue, d.Count)
	}
	_, err := fmt.Fprintln(w, line)
	return err
}
