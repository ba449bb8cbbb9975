package definitions

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// cluster is a catalog with a node.
func cluster(t testing.TB) *catalog.Catalog {
	t.Helper()
	c := catalog.New()
	apply(t, c, &catalog.RegisterNode{ID: "n1", Address: "h:1", ClientAddress: "h:2", Epoch: 1})
	return c
}

func apply(t testing.TB, c *catalog.Catalog, cmd catalog.Command) {
	t.Helper()
	if r := c.Apply(c.View().Index()+1, 1, cmd); r.Err != nil {
		t.Fatalf("%T: %v", cmd, r.Err)
	}
}

func parse(t testing.TB, text []byte, vhost string) *Document {
	t.Helper()
	d, err := Parse(text, vhost)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// carryOut applies what a plan creates.
func carryOut(t testing.TB, c *catalog.Catalog, steps []Step) {
	t.Helper()
	for i := range steps {
		if steps[i].Action != Create {
			continue
		}
		if q, is := steps[i].Command.(*catalog.DeclareQueue); is {
			placed := *q
			placed.Members, placed.Leader = []id.NodeID{"n1"}, "n1"
			if !placed.Durable {
				placed.Home = 1 // as cluster has it
			}
			apply(t, c, &placed)
			continue
		}
		apply(t, c, steps[i].Command)
	}
}

func (a Action) name() string {
	return [...]string{"create", "keep", "differ", "refuse", "skip"}[a]
}

func planText(steps []Step) []byte {
	var b bytes.Buffer
	for i := range steps {
		s := &steps[i]
		fmt.Fprintf(&b, "%-6s %-16s %-10q %q %s", s.Action.name(), s.Kind, s.VHost, s.Name, s.Path)
		if s.Reason != "" {
			fmt.Fprintf(&b, "\n       %s", s.Reason)
		}
		for _, w := range s.Warnings {
			fmt.Fprintf(&b, "\n       warning: %s", w)
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant (-args -rewrite makes it so):\n%s", file, got, want)
	}
}

func export(t testing.TB, v *catalog.View, vhost string) []byte {
	t.Helper()
	out, err := Append(nil, v, vhost, Origin{Cluster: "test", Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// VH-9, ST-4: an export of RabbitMQ 4.1 goes in, comes out and goes in again.
func TestFromRabbitMQ(t *testing.T) {
	text, err := os.ReadFile("testdata/rabbitmq-4.1.json")
	if err != nil {
		t.Fatal(err)
	}
	c := cluster(t)
	d := parse(t, text, "")
	steps := Plan(d, c.View(), nil)
	golden(t, "rabbitmq-4.1.plan", planText(steps))
	carryOut(t, c, steps)
	golden(t, "rabbitmq-4.1.again", planText(Plan(d, c.View(), nil)))
	whole := export(t, c.View(), "")
	golden(t, "rabbitmq-4.1.export", whole)
	one := export(t, c.View(), "shop")
	golden(t, "rabbitmq-4.1.vhost", one)
	for _, s := range Plan(parse(t, whole, ""), c.View(), nil) {
		if s.Action != Keep {
			t.Errorf("after its export, %s %q: %v %s", s.Kind, s.Name, s.Action, s.Reason)
		}
	}

	fresh := cluster(t)
	carryOut(t, fresh, Plan(parse(t, whole, ""), fresh.View(), nil))
	if again := export(t, fresh.View(), ""); !bytes.Equal(again, whole) {
		t.Errorf("through another cluster:\n%s", again)
	}
	apply(t, fresh, &catalog.PutVHost{VHost: catalog.VHost{Name: "copy", DefaultQueueType: catalog.QueueQuorum, VHostLimits: catalog.NoVHostLimits()}})
	carryOut(t, fresh, Plan(parse(t, one, "copy"), fresh.View(), nil))
	if copied := strings.ReplaceAll(string(export(t, fresh.View(), "copy")), "copy", "shop"); !strings.HasSuffix(copied, string(one[bytes.Index(one, []byte(`"parameters"`)):])) {
		t.Errorf("the copy of a vhost:\n%s", copied)
	}
}

// VH-9: one vhost of a document.
func TestOneVHost(t *testing.T) {
	text, err := os.ReadFile("testdata/rabbitmq-4.1.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range parse(t, text, "shop").Objects {
		if in := o.VHost; o.Kind == KindUser || o.Kind == KindGlobalParameter || in != "" && in != "shop" {
			t.Errorf("%s %q of vhost %q is taken", o.Kind, o.Name, in)
		}
	}
	older, err := Parse([]byte(`{"queues":[{"name":"q","durable":true},{"name":"r","vhost":"other","durable":true}]}`), "v")
	if err != nil || len(older.Objects) != 1 || older.Objects[0].VHost != "v" || older.Objects[0].Name != "q" {
		t.Errorf("a document that does not say that it is of one vhost: %+v, %v", older, err)
	}
}

// VH-9: nothing is taken of a document that is cut off at any place.
func TestCutOff(t *testing.T) {
	text, err := os.ReadFile("testdata/rabbitmq-4.1.json")
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.TrimSpace(text)
	for n := 0; n < len(text); n += 3 {
		var faults *Faults
		if d, err := Parse(text[:n], ""); d != nil || !errors.As(err, &faults) || faults.Total != 1 {
			t.Fatalf("cut off at byte %d: %v, %v", n, d, err)
		}
	}
}

// VH-9: all faults of form are reported, and nothing is taken.
func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		``:                           "$ ends in the middle, at byte 0: the document was cut off",
		`[]`:                         "$ is a list; want an object",
		`{} {}`:                      "$ has more behind its end, at byte 4; give one JSON document",
		`{"users":{}}`:               "$.users is an object; want a list",
		`{"users":[1]}`:              "$.users[0] is the number 1; want an object",
		`{"a":1,"a":2}`:              "$.a occurs twice",
		`{"users":[{"name":1}]}`:     "$.users[0].name is the number 1; want a string",
		`{"vhosts":[{"name":null}]}`: "$.vhosts[0].name is missing",
		`{"queues":[{"name":"q"}]}`:  "$.queues[0].vhost is missing",
		`{"queues":[{"name":"q","vhost":"/","durable":"true","arguments":3}]}`:                  "$.queues[0].arguments is the number 3; want an object; $.queues[0].durable is a string; want true or false",
		`{"queues":[{"name":"q","vhost":"/","arguments":{"a":18446744073709551616}}]}`:          "$.queues[0].arguments.a is 18446744073709551616, beyond 64 bits",
		`{"policies":[{"vhost":"/","name":"p","pattern":"x","priority":1.5,"definition":[1]}]}`: "$.policies[0].definition is a list; want an object; $.policies[0].priority is the number 1.5; want a whole number",
		`{"bindings":[{"source":"a","vhost":"/","destination":"b","destination_type":"c"}]}`:    `$.bindings[0].destination_type is "c"; want "queue" or "exchange"`,
		`{"rabbitmq_definition_format":"single_virtual_host"}`:                                  "$.rabbitmq_definition_format is single_virtual_host: its objects name no vhost; name the vhost to import them into",
		strings.Repeat(`{"a":`, 50): "$" + strings.Repeat(".a", MaxDepth) + " is nested deeper than 40 levels",
	} {
		if d, err := Parse([]byte(text), ""); d != nil || err == nil || err.Error() != want {
			t.Errorf("%.60s\n got %v\nwant %s", text, err, want)
		}
	}
	_, err := Parse([]byte(`{"queues":[`+strings.Repeat(`{},`, 99)+`{}]}`), "")
	if err == nil || !strings.HasSuffix(err.Error(), "; and 150 more") {
		t.Errorf("200 faults: %v", err)
	}
}

// A cluster that was founded just now has no nodes yet: queues and what is bound to them are late
// then, and not refused.
func TestNoNodeYet(t *testing.T) {
	doc := parse(t, document(2), "")
	for _, version := range []catalog.Version{catalog.VersionFirst, catalog.VersionStores} {
		c := catalog.New()
		if version > catalog.VersionFirst {
			apply(t, c, &catalog.RaiseVersion{Version: version})
		}
		for _, s := range Plan(doc, c.View(), nil) {
			if s.Action != Create {
				t.Errorf("version %d: %v %q: %s, %s", version, s.Kind, s.Name, s.Action.name(), s.Reason)
			}
		}
	}
}

// VH-9: what exists with other properties is left, and the rest is made.
func TestConflicts(t *testing.T) {
	c := cluster(t)
	text := func(edit func(string) string) []byte {
		b, err := os.ReadFile("testdata/rabbitmq-4.1.json")
		if err != nil {
			t.Fatal(err)
		}
		return []byte(edit(string(b)))
	}
	carryOut(t, c, Plan(parse(t, text(func(s string) string { return s }), ""), c.View(), nil))
	changed := text(strings.NewReplacer(
		`"tags":["prod"]`, `"tags":["test"]`, `"max-queues":100`, `"max-queues":200`, `"max-connections":20`, `"max-connections":30`,
		`"tags":["administrator"]`, `"tags":["monitoring"]`, `"^{username}-.*"`, `"^x"`, `"max-length":100000`, `"max-length":5`,
		`"amqp://other"`, `"amqp://another"`, `"delivery-limit":5`, `"delivery-limit":6`, `"x-max-length":1000`, `"x-max-length":1`,
		`"type":"fanout"`, `"type":"direct"`, `"value":[]`, `"value":["x"]`, `"^(?!amq\\.).*"`, `".*"`, `"country":"de"`, `"country":"fr"`,
	).Replace)
	golden(t, "conflicts.plan", planText(Plan(parse(t, changed, ""), c.View(), nil)))
}

// VH-9: objects that vet refuses, and objects that need what is missing.
func TestRefusals(t *testing.T) {
	d := parse(t, []byte(`{
		"users":[{"name":"u","tags":"a,b","password":"secret"}],
		"permissions":[{"user":"nobody","vhost":"/","configure":"","write":"","read":""}],
		"queues":[{"name":"bad","vhost":"/"},{"name":"q","vhost":"none"}],
		"exchanges":[{"name":"amq.own","vhost":"/","type":"topic"},{"name":"x","vhost":"/","type":"odd"}],
		"bindings":[{"source":"","vhost":"/","destination":"q","destination_type":"queue"},
			{"source":"amq.topic","vhost":"/","destination":"bad","destination_type":"queue"}]}`), "")
	golden(t, "refusals.plan", planText(Plan(d, cluster(t).View(), func(o *Object) error {
		if o.Name == "bad" {
			return errors.New("is bad")
		}
		return nil
	})))
	u := d.Objects[0]
	if c, is := u.Command.(*catalog.PutUser); !is || u.Password != "secret" || len(c.Tags) != 2 {
		t.Errorf("the user is %+v", u)
	}
}

// Values that JSON has no type for are written as what is nearest, and a binding with them
// is known again.
func TestLossyArguments(t *testing.T) {
	c := cluster(t)
	apply(t, c, &catalog.Bind{VHost: "/", Source: "amq.headers", DestinationKind: catalog.ToExchange, Destination: "amq.fanout", Arguments: message.Table{
		{Name: "timestamp", Value: message.Timestamp(5)},
		{Name: "bytes", Value: message.Bytes([]byte("a<b"))},
		{Name: "decimal", Value: message.Decimal(2, 150)},
		{Name: "float", Value: message.Float64(2)},
		{Name: "table", Value: message.TableValue(message.Table{{Name: "n", Value: message.Null()}, {Name: "n", Value: message.Bool(true)}})},
		{Name: "array", Value: message.Array(message.Int8(-1), message.Uint64(1<<63))},
	}})
	text := export(t, c.View(), "/")
	for _, want := range []string{`"timestamp": 5`, `"a<b"`, `"decimal": 1.5`, `"float": 2.0`, `"n": null`, "9223372036854775808"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the export has no %s:\n%s", want, text)
		}
	}
	for _, s := range Plan(parse(t, text, "/"), c.View(), nil) {
		if s.Action != Keep {
			t.Errorf("%s %q: %v %s", s.Kind, s.Name, s.Action, s.Reason)
		}
	}
}

// What is the broker's own stays where it is.
func TestExportLeavesOut(t *testing.T) {
	c := cluster(t)
	apply(t, c, &catalog.PutParameter{Parameter: catalog.Parameter{Component: "access-token", Name: "secret", Value: `"hash"`}})
	apply(t, c, &catalog.DeclareQueue{VHost: "/", Name: "secret", Type: catalog.QueueClassic, Durable: true, Exclusive: true, Owner: catalog.Owner{Node: "n1", Epoch: 1, Key: "k"}, Members: []id.NodeID{"n1"}, Leader: "n1"})
	apply(t, c, &catalog.Bind{VHost: "/", Source: "amq.fanout", Destination: "secret"})
	if text := export(t, c.View(), ""); bytes.Contains(text, []byte("secret")) {
		t.Errorf("exported:\n%s", text)
	}
}

// FuzzParse: no document brings the parser down, and what one import makes, the next one of
// the same document and of its export keeps.
// VH-17: a document names the declarers of queues, except for one whose name another user has by now; where it names
// none, who imports becomes the declarer. What is there keeps its own.
func TestDeclarers(t *testing.T) {
	c := cluster(t)
	apply(t, c, &catalog.RaiseVersion{Version: catalog.VersionDeclarers})
	user := &catalog.PutUser{User: catalog.User{Name: "u", UserLimits: catalog.NoUserLimits()}}
	user.MaxQueues, user.MaxStoredBytes = 4, 1000
	declare := func(name, by string) {
		apply(t, c, &catalog.DeclareQueue{
			VHost: "/", Name: name, Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"n1"}, Leader: "n1", DeclaredBy: by,
		})
	}
	apply(t, c, user)
	declare("former", "u")
	apply(t, c, &catalog.DeleteUser{Name: "u"})
	apply(t, c, user)
	declare("own", "u")
	declare("token", "somebody")
	declare("nobodys", "")
	text := export(t, c.View(), "")
	other := cluster(t)
	apply(t, other, &catalog.RaiseVersion{Version: catalog.VersionDeclarers})
	d := parse(t, text, "")
	d.DeclareBy("importer")
	carryOut(t, other, Plan(d, other.View(), nil))
	for name, want := range map[string]string{"former": "importer", "own": "u", "token": "somebody", "nobodys": "importer"} {
		if q, ok := other.View().Queue("/", name); !ok || q.DeclaredBy != want {
			t.Errorf("queue %q: %+v, want the declarer %q", name, q, want)
		}
	}
	u, ok := other.View().User("u")
	if n := other.View().QueueCountOf("u"); !ok || u.UserLimits != user.UserLimits || n != 1 {
		t.Errorf("user %+v with %d queues", u, n)
	}
	d = parse(t, text, "")
	d.DeclareBy("another")
	for _, s := range Plan(d, other.View(), nil) {
		if s.Action != Keep && s.Action != Skip {
			t.Errorf("imported again: %s %s %s", s.Action.name(), s.Name, s.Reason)
		}
	}
}

// VH-17: in a cluster that is being upgraded queues are made without the declarer that a document names; in a new one
// they wait for the version that it begins with.
func TestDeclarersDuringUpgrade(t *testing.T) {
	const text = `{"queues":[
		{"name":"there","vhost":"/","type":"quorum","durable":true,"declared_by":"u"},
		{"name":"new","vhost":"/","type":"quorum","durable":true,"declared_by":"u"}]}`
	for version, want := range map[catalog.Version]string{
		catalog.VersionFirst: "u", catalog.VersionStores: "", catalog.VersionDeclarers - 1: "", catalog.VersionDeclarers: "u",
	} {
		c := cluster(t)
		apply(t, c, &catalog.RaiseVersion{Version: version})
		apply(t, c, &catalog.DeclareQueue{
			VHost: "/", Name: "there", Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"n1"}, Leader: "n1",
		})
		d := parse(t, []byte(text), "")
		for range 2 { // a document may be planned again
			steps := Plan(d, c.View(), nil)
			if s := &steps[0]; s.Action != Keep || len(s.Warnings) > 0 {
				t.Errorf("version %d: what is there: %s, warnings %q", version, s.Action.name(), s.Warnings)
			}
			s := &steps[1]
			q, is := s.Command.(*catalog.DeclareQueue)
			if !is || s.Action != Create || q.DeclaredBy != want || (len(s.Warnings) > 0) != (want == "") {
				t.Errorf("version %d: %s %+v, warnings %q; want the declarer %q", version, s.Action.name(), s.Command, s.Warnings, want)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, file := range []string{"testdata/rabbitmq-4.1.json", "testdata/rabbitmq-3.11.json"} {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, "")
		f.Add(text, "shop")
	}
	f.Add([]byte(`{"queues":[{"name":"q","vhost":"/","arguments":{"x-max-length":1.0,"a":{"b":[null,1e3,true]}}}]}`), "")
	f.Add([]byte(`{"rabbitmq_definition_format":"single_virtual_host","queues":[{"name":"q"}]}`), "/")
	f.Fuzz(func(t *testing.T, text []byte, vhost string) {
		d, err := Parse(text, vhost)
		if err != nil {
			return
		}
		c := cluster(t)
		carryOut(t, c, Plan(d, c.View(), nil))
		for _, s := range Plan(d, c.View(), nil) {
			if s.Action == Create {
				t.Errorf("made a second time: %s %q in %q", s.Kind, s.Name, s.VHost)
			}
		}
		for _, s := range Plan(parse(t, export(t, c.View(), ""), ""), c.View(), nil) {
			if s.Action != Keep && s.Action != Skip {
				t.Errorf("after its export, %s %q in %q: %v %s", s.Kind, s.Name, s.VHost, s.Action, s.Reason)
			}
		}
	})
}

// document has n queues, each bound once.
func document(n int) []byte {
	var queues, bindings bytes.Buffer
	for i := range n {
		sep := ","
		if i == 0 {
			sep = ""
		}
		fmt.Fprintf(&queues, `%s{"name":"q%06d","vhost":"/","type":"quorum","durable":true,"auto_delete":false,"arguments":{"x-queue-type":"quorum","x-max-length":%d}}`, sep, i, i)
		fmt.Fprintf(&bindings, `%s{"source":"amq.topic","vhost":"/","destination":"q%06d","destination_type":"queue","routing_key":"k.%d.#","arguments":{}}`, sep, i, i)
	}
	return fmt.Appendf(nil, `{"queues":[%s],"bindings":[%s]}`, &queues, &bindings)
}

func BenchmarkDefinitions(b *testing.B) {
	const queues = 10_000
	text := document(queues)
	d := parse(b, text, "")
	empty, full := cluster(b), cluster(b)
	carryOut(b, full, Plan(d, full.View(), nil))
	for _, row := range []struct {
		name string
		run  func()
	}{
		{"parse", func() { _, _ = Parse(text, "") }},
		{"plan-new", func() { Plan(d, empty.View(), nil) }},
		{"plan-same", func() { Plan(d, full.View(), nil) }},
		{"export", func() { _, _ = Append(nil, full.View(), "", Origin{}) }},
	} {
		b.Run(fmt.Sprintf("%s/queues=%d", row.name, queues), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				row.run()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/queues, "ns/queue")
		})
	}
}

// A table that stands alone is read as the arguments of a queue are, and faults have their paths.
func TestParseTable(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "{}"},
		{"{}", "{}"},
		{`{"x-max-length": 9007199254740993, "a": [1.5, {"b": null}], "s": "t"}`, `{"x-max-length":9007199254740993,"a":[1.5,{"b":null}],"s":"t"}`},
		{"null", "$ is null; want an object"},
		{`{"a": 1, "a": 2}`, "$.a occurs twice"},
		{`{"a": {"b": 99999999999999999999}}`, "$.a.b is 99999999999999999999, beyond 64 bits"},
		{`{"a": `, "$ ends in the middle, at byte 6: the document was cut off"},
	} {
		table, err := ParseTable([]byte(c.text))
		got := string(table.AppendJSON(nil))
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
}
