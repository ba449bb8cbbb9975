package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// patience bounds the wait until a queue has a number of messages or consumers, and the clients'
// waits for expected messages. PATIENCE, in seconds, changes it.
func patience() time.Duration {
	if s, err := strconv.Atoi(os.Getenv("PATIENCE")); err == nil {
		return time.Duration(s) * time.Second
	}
	return 90 * time.Second
}

// Outcome is the outcome of a scenario.
type Outcome int

const (
	// Passed means that all answers are as the rules require.
	Passed Outcome = iota
	// Expected means that some answers differ, each in a known way.
	Expected
	// Failed means that an answer is wrong, or a known difference no longer exists.
	Failed
)

// Result is the result of a scenario.
type Result struct {
	Scenario string
	Outcome  Outcome
	Rules    []string // of the differences met
	Text     string   // of a failure
	Answers  [][]string
}

// player runs one scenario with one client.
type player struct {
	client   *Client
	broker   Broker
	prefix   string // of the names of queues and exchanges
	channels map[string]bool
	replyTo  string // of the last message that had one
}

// Play runs a scenario and leaves no connection open.
func Play(s Scenario, c *Client, b Broker) Result {
	p := &player{client: c, broker: b, prefix: c.Name + "." + s.Name + ".", channels: map[string]bool{}}
	r := Result{Scenario: s.Name}
	for _, step := range s.Steps {
		got, err := p.step(step)
		if err != nil {
			got = []string{"broken: " + err.Error()}
		}
		r.Answers = append(r.Answers, got)
		want, difference := step.want(b.Kind(), c.Name)
		switch {
		case !slices.Equal(got, want):
			r.Outcome = Failed
			r.Text += fmt.Sprintf("> %s\n  got:  %s\n  want: %s\n", step.Line, strings.Join(got, "\n        "), strings.Join(want, "\n        "))
			if difference != nil {
				r.Text += "  which is the known difference, " + difference.Rule + ": " + difference.Why + "\n"
			}
		case difference != nil:
			r.Rules = append(r.Rules, difference.Rule)
			if r.Outcome == Passed {
				r.Outcome = Expected
			}
		}
		if err != nil {
			return r // the client is out of step
		}
	}
	if _, err := c.Call("reset", nil); err != nil {
		r.Outcome = Failed
		r.Text += err.Error() + "\n"
	}
	return r
}

// step carries out a command and returns its answer in lines.
func (p *player) step(s Step) ([]string, error) {
	args := map[string]any{"conn": "a", "ch": "1"}
	for name, v := range s.Args {
		args[name] = p.named(v)
	}
	for _, name := range []string{"conn", "ch", "key", "tag", "q", "x", "to", "body"} {
		if v, ok := args[name].(json.Number); ok {
			args[name] = v.String()
		}
		if args[name] == "@reply" {
			args[name] = p.replyTo
		}
	}
	switch s.Do {
	case "await":
		return p.await(args)
	case "publish":
		return p.publish(args)
	}
	a, err := p.call(s.Do, args)
	return p.lines(s.Do, a, args), err
}

// publish sends a message for each of the bodies.
func (p *player) publish(args map[string]any) ([]string, error) {
	bodies, many := args["bodies"].([]any)
	if n, ok := args["size"].(json.Number); ok {
		size, _ := n.Int64()
		args["body"] = strings.Repeat("0123456789abcdef", int(size)/16+1)[:size]
	}
	if !many {
		bodies = []any{args["body"]}
	}
	delete(args, "bodies")
	delete(args, "size")
	var out []string
	for _, b := range bodies {
		args["body"] = fmt.Sprint(b)
		if b == nil {
			args["body"] = ""
		}
		a, err := p.call("publish", args)
		if out = append(out, p.lines("publish", a, args)...); err != nil {
			return out, err
		}
	}
	if slices.Equal(slices.Compact(slices.Clone(out)), out[:1]) {
		out = out[:1]
	}
	return out, nil
}

// await asks every few milliseconds until a queue has the wanted number. Where RabbitMQ is known
// not to reach it, patience is the wait in seconds.
func (p *player) await(args map[string]any) ([]string, error) {
	every, within := 20*time.Millisecond, patience()
	if n, ok := args["every"].(json.Number); ok {
		ms, _ := n.Int64()
		every = time.Duration(ms) * time.Millisecond
		time.Sleep(every) // asking would count as use of the queue
	}
	if n, ok := args["patience"].(json.Number); ok && p.broker.Kind() == "rabbitmq" {
		s, _ := n.Int64()
		within = time.Duration(s) * time.Second
	}
	deadline := time.Now().Add(within)
	ask := map[string]any{"conn": "await", "ch": "1", "q": args["q"], "passive": true}
	for {
		a, err := p.call("queue.declare", ask)
		if err != nil {
			return nil, err
		}
		have := map[string]*int{"ready": a.Messages, "consumers": a.Consumers}
		met := a.Fault == nil
		if args["gone"] == true {
			met = a.Fault != nil && a.Fault.Code == 404
		}
		for name, n := range have {
			if want, ok := args[name].(json.Number); ok && (n == nil || want.String() != fmt.Sprint(*n)) {
				met = false
			}
		}
		if met {
			return []string{"ok"}, nil
		}
		if time.Now().After(deadline) {
			return append([]string{"not in time"}, p.lines("queue.declare", a, args)...), nil
		}
		time.Sleep(every)
	}
}

// call opens the connection and channel that a command needs, and carries the command out.
func (p *player) call(do string, args map[string]any) (Answer, error) {
	conn, ch := fmt.Sprint(args["conn"]), fmt.Sprint(args["ch"])
	if do == "connect" {
		args["host"], args["port"] = p.broker.Address()
	} else if !p.channels[conn] && do != "closed" {
		open := map[string]any{"conn": conn}
		open["host"], open["port"] = p.broker.Address()
		if a, err := p.client.Call("connect", open); err != nil || a.Fault != nil || a.Broken != "" {
			return a, err
		}
		p.channels[conn] = true
	}
	onChannel := !slices.Contains([]string{"connect", "disconnect", "channel", "state", "update-secret"}, do) && args["of"] != "connection"
	if onChannel && !p.channels[conn+"/"+ch] && do != "closed" {
		if a, err := p.client.Call("channel", map[string]any{"conn": conn, "ch": ch}); err != nil || a.Fault != nil || a.Broken != "" {
			return a, err
		}
		p.channels[conn+"/"+ch] = true
	}
	a, err := p.client.Call(do, args)
	for _, m := range a.Got {
		if to, ok := m.Properties["reply_to"].(string); ok {
			p.replyTo = to
		}
	}
	switch {
	case err != nil:
		return a, err
	case a.Fault != nil && a.Fault.Scope == "connection", do == "disconnect":
		for name := range p.channels {
			if name == conn || strings.HasPrefix(name, conn+"/") {
				delete(p.channels, name)
			}
		}
	case a.Fault != nil, do == "channel.close":
		delete(p.channels, conn+"/"+ch)
	case do == "connect":
		p.channels[conn] = true
	case do == "channel":
		p.channels[conn+"/"+ch] = true
	}
	return a, nil
}

// named replaces each $ by the prefix.
func (p *player) named(v any) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, "$", p.prefix)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = p.named(v[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			out[strings.ReplaceAll(k, "$", p.prefix)] = p.named(x)
		}
		return out
	}
	return v
}
