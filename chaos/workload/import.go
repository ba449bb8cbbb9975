package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

// Import is the workload of definitions that are imported again and again while clients publish
// through what they define: nothing changes, and nothing is lost (VH-9).
func Import() Kind {
	return Kind{
		Name: "import", Protocols: []string{overGRPC, overAMQP}, Rate: 40,
		Does: "definitions that are imported again and again while clients publish: nothing changes",
		New:  func(w *World) Workload { return &importing{base: base{World: w}} },
	}
}

const (
	importEvery   = 700 * time.Millisecond
	importTimeout = 20 * time.Second
)

// importing is the workload of Import.
type importing struct {
	base
	document []byte
}

// Prepare implements Workload.
func (m *importing) Prepare(ctx context.Context) error {
	exchange := m.Queue("topic")
	m.drains = []string{m.Queue("a"), m.Queue("b")}
	if _, err := m.Client.DeclareExchange(ctx, client.Exchange{VHost: m.VHost, Name: exchange, Type: "topic"}); err != nil {
		return err
	}
	for n, q := range m.drains {
		if err := m.declare(ctx, q, client.Table{"x-delivery-limit": -1}, history.Queue{DeliveryLimit: -1, Ordered: true}); err != nil {
			return err
		}
		if err := m.Client.Bind(ctx, client.Binding{VHost: m.VHost, Source: exchange, Destination: q, RoutingKey: "to.#"}); err != nil {
			return err
		}
		m.players.consumer(m.class(n), &Consumer{Queue: q})
	}
	for n := range 2 {
		m.players.publisher(m.class(n), &Publisher{Queue: m.drains[0], post: func(uint64) post {
			return post{exchange: exchange, key: "to.both", queues: m.drains}
		}})
	}
	all, err := m.Client.ExportDefinitions(ctx, m.VHost)
	if err != nil {
		return err
	}
	if m.document, err = m.own(all); err != nil {
		return err
	}
	m.players.other(m.importAgain)
	return nil
}

// own returns the part of a document that is about the workload.
func (m *importing) own(document []byte) ([]byte, error) {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(document, &parts); err != nil {
		return nil, fmt.Errorf("workload: the exported definitions: %w", err)
	}
	for name, key := range map[string]string{"queues": "name", "exchanges": "name", "bindings": "source"} {
		var all, own []map[string]any
		if err := json.Unmarshal(parts[name], &all); err != nil {
			return nil, fmt.Errorf("workload: %s of the exported definitions: %w", name, err)
		}
		for _, x := range all {
			if s, _ := x[key].(string); strings.HasPrefix(s, m.Prefix+".") {
				own = append(own, x)
			}
		}
		if len(own) == 0 {
			return nil, fmt.Errorf("workload: the exported definitions have no %s of %s", name, m.Prefix)
		}
		var err error
		if parts[name], err = json.Marshal(own); err != nil {
			return nil, err
		}
	}
	delete(parts, "policies") // others change theirs meanwhile
	delete(parts, "parameters")
	return json.Marshal(parts)
}

// importAgain imports the document until publishing ends. What it changes is recorded as the value
// of a register that nobody writes: it stays empty.
func (m *importing) importAgain(ctx, publishing context.Context) error {
	for wait.For(publishing, importEvery) == nil {
		call := m.History.Now()
		asking, cancel := context.WithTimeout(ctx, importTimeout)
		done, err := m.Client.ImportDefinitions(asking, client.ImportDefinitionsRequest{Document: m.document, VHost: m.VHost})
		cancel()
		if err != nil {
			m.Log("import: %v", err)
			continue
		}
		value := ""
		if done.Created+done.Different+done.Refused > 0 || done.Unchanged == 0 && done.Failed == 0 {
			value = fmt.Sprintf("created %d, unchanged %d, different %d, refused %d", done.Created, done.Unchanged, done.Different, done.Refused)
		}
		m.History.Add(history.Event{Kind: history.Register, Op: &history.Operation{
			Name: m.Queue("changes"), Value: value, Call: call, Return: m.History.Now(),
		}})
	}
	return nil
}
