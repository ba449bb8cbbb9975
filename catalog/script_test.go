package catalog_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
)

// script runs the lines of one test file. Every command goes through its byte form, is
// applied to a second catalog that replays everything, and to a third that is restored
// from a snapshot before every command; all three must agree.
type script struct {
	main, replay *catalog.Catalog
	index        uint64
}

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := &script{main: catalog.New(), replay: catalog.New()}
		for _, n := range []id.NodeID{"n1", "n2", "n3"} {
			s.apply(t, &catalog.RegisterNode{ID: n, Address: string(n) + ":1", ClientAddress: string(n) + ":2", Epoch: 1})
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				if tokens := tokenize(t, line); len(tokens) > 0 {
					fmt.Fprintln(&out, s.line(t, d.Cmd, tokens))
				}
			}
			if d.Cmd == "show" {
				s.show(&out)
			}
			return out.String()
		})
	})
}

func (s *script) line(t *testing.T, directive string, tokens []token) string {
	t.Helper()
	switch directive {
	case "apply":
		return describe(s.apply(t, command(t, tokens)))
	case "route":
		return s.route(t, tokens)
	}
	t.Fatalf("unknown directive %q", directive)
	return ""
}

func (s *script) apply(t *testing.T, cmd catalog.Command) catalog.Reply {
	t.Helper()
	decoded, err := catalog.DecodeCommand(catalog.AppendCommand(nil, cmd))
	if err != nil {
		t.Fatalf("%T: %v", cmd, err)
	}
	if !reflect.DeepEqual(cmd, decoded) {
		t.Fatalf("decoded %+v, want %+v", decoded, cmd)
	}
	restored := catalog.New()
	if err := restored.Restore(s.main.AppendSnapshot(nil)); err != nil {
		t.Fatal(err)
	}
	s.index++
	now := int64(s.index) * 1000
	r := s.main.Apply(s.index, now, cmd)
	want := s.main.AppendSnapshot(nil)
	for name, c := range map[string]*catalog.Catalog{"replayed": s.replay, "restored": restored} {
		if got := c.Apply(s.index, now, decoded); !reflect.DeepEqual(got, r) {
			t.Fatalf("%s: reply %+v, want %+v", name, got, r)
		}
		if got := c.AppendSnapshot(nil); !bytes.Equal(got, want) {
			t.Fatalf("%s: snapshots differ after %+v", name, cmd)
		}
	}
	again, err := catalog.DecodeReply(catalog.AppendReply(nil, r))
	if err != nil || !reflect.DeepEqual(again, r) {
		t.Fatalf("reply decoded as %+v, %v; want %+v", again, err, r)
	}
	return r
}

func describe(r catalog.Reply) string {
	if r.Err != nil {
		return r.Err.Error()
	}
	out := "ok"
	if r.UID != 0 {
		out += " " + r.UID.String()
	}
	if r.Created {
		out += " created"
	}
	if r.Deleted {
		out += " deleted"
	}
	return out
}

// route lines: exchange, keys, headers as h:name=type:value, and what only some types of
// exchange look at: chance=N, message-id=ID, correlation-id=ID, timestamp=N, local=QUEUE.
func (s *script) route(t *testing.T, tokens []token) string {
	t.Helper()
	v := s.main.View()
	p := catalog.Publication{Properties: &message.Properties{}}
	for _, tok := range tokens[1:] {
		switch name, header := strings.CutPrefix(tok.key, "h:"); {
		case header:
			p.Headers = append(p.Headers, message.Field{Name: name, Value: value(t, tok.value)})
		case tok.key == "chance":
			p.Chance = number(t, tok.value)
		case tok.key == "timestamp":
			p.Properties.Timestamp = number(t, tok.value)
		case tok.key == "message-id":
			p.Properties.MessageID = tok.value
		case tok.key == "correlation-id":
			p.Properties.CorrelationID = tok.value
		case tok.key == "local":
			local, _ := v.Queue("/", tok.value)
			p.Local = func(uid id.QueueUID) bool { return local != nil && uid == local.UID }
		default:
			p.Keys = append(p.Keys, tok.value)
		}
	}
	uids, err := v.Route("/", tokens[0].value, &p, nil)
	if err != nil {
		return err.Error()
	}
	if len(uids) == 0 {
		return "unroutable"
	}
	names := make([]string, len(uids))
	for i, uid := range uids {
		q, ok := v.QueueByUID(uid)
		if !ok {
			t.Fatalf("routed to %v, which is no queue", uid)
		}
		names[i] = q.Name
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func (s *script) showSettings(out *strings.Builder, v *catalog.View) {
	for u := range v.Users() {
		fmt.Fprintf(out, "user %q %s %q %q %+v\n", u.Name, u.Algorithm, u.PasswordHash, u.Tags, u.UserLimits)
		if n := v.QueueCountOf(u.Name); n > 0 {
			fmt.Fprintf(out, "  has declared %d queues\n", n)
		}
	}
	for p := range v.Parameters("") {
		fmt.Fprintf(out, "parameter %+v\n", *p)
	}
	for x := range v.VHosts() {
		if x.Name == "/" && x.VHostLimits == catalog.NoVHostLimits() {
			continue
		}
		fmt.Fprintf(out, "vhost %+v\n", *x)
	}
	for x := range v.VHosts() {
		for p := range v.Permissions(x.Name) {
			fmt.Fprintf(out, "permission %+v\n", *p)
		}
		for p := range v.TopicPermissions(x.Name) {
			fmt.Fprintf(out, "topic permission %+v\n", *p)
		}
		for _, operator := range []bool{false, true} {
			for p := range v.Policies(x.Name, operator) {
				fmt.Fprintf(out, "policy %+v\n", *p)
			}
		}
		for p := range v.Parameters(x.Name) {
			fmt.Fprintf(out, "parameter %+v\n", *p)
		}
	}
}

func number(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *script) show(out *strings.Builder) {
	v := s.main.View()
	if v.Version() > catalog.VersionFirst {
		fmt.Fprintf(out, "version %d\n", v.Version())
	}
	for n := range v.Nodes() {
		fmt.Fprintf(out, "node %s %s %s epoch %d\n", n.ID, n.Address, n.ClientAddress, n.Epoch)
		if n.Store != "" || n.Vacant || n.Out > 0 {
			fmt.Fprintf(out, "  store %q, vacant %v, former %q, out at %d\n", n.Store, n.Vacant, n.Former, n.Out)
		}
	}
	for n, since := range v.Leaving() {
		fmt.Fprintf(out, "leaving %s since %d\n", n, since)
	}
	for x := range v.Exchanges() {
		if !x.Predeclared {
			fmt.Fprintf(out, "exchange %q %s durable=%v auto_delete=%v internal=%v %v\n",
				x.Name, x.Type, x.Durable, x.AutoDelete, x.Internal, x.Arguments)
		}
	}
	for q := range v.Queues() {
		fmt.Fprintf(out, "queue %q %v %s members %q leader %q %v\n", q.Name, q.UID, q.Type, q.Members, q.Leader, q.Arguments)
		if q.Changed != 0 || q.Size != 0 {
			fmt.Fprintf(out, "  changed at %d, size %d\n", q.Changed, q.Size)
		}
		if q.DrainDeleting > 0 {
			fmt.Fprintf(out, "  drain-deleting since %d\n", q.DrainDeleting)
		}
		if q.DeclaredBy != "" {
			_, counts := v.DeclarerOf(q)
			fmt.Fprintf(out, "  declared by %q, counts %v\n", q.DeclaredBy, counts)
		}
		if g := q.Change; g != nil {
			fmt.Fprintf(out, "  change %d: %s; cancelled=%v\n", g.ID, g, g.Cancelled)
		}
	}
	s.showSettings(out, v)
	for b := range v.Bindings() {
		fmt.Fprintf(out, "binding %q to %s %q key %q %v\n", b.Source, b.DestinationKind, b.Destination, b.Key, b.Arguments)
	}
}

// token is a word of a line: a bare or quoted value, or key=value.
type token struct{ key, value string }

func tokenize(t *testing.T, line string) (tokens []token) {
	t.Helper()
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		var tok token
		if i := strings.IndexAny(line, "= \""); i > 0 && line[i] == '=' {
			tok.key, line = line[:i], line[i+1:]
		}
		prefix := ""
		if i := strings.IndexByte(line, ':'); i >= 0 && strings.HasPrefix(line[i+1:], `"`) && !strings.ContainsAny(line[:i], "\" ") {
			prefix, line = line[:i+1], line[i+1:]
		}
		if strings.HasPrefix(line, `"`) {
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			tok.value, _ = strconv.Unquote(quoted)
			tok.value = prefix + tok.value
			line = line[len(quoted):]
		} else {
			tok.value, line, _ = strings.Cut(line, " ")
		}
		tokens = append(tokens, tok)
	}
	return tokens
}

// value reads type:text, for example int8:5, string:abc, null:, bool:true.
func value(t *testing.T, s string) message.Value {
	t.Helper()
	kind, text, _ := strings.Cut(s, ":")
	number := func() int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatalf("value %q: %v", s, err)
		}
		return n
	}
	switch kind {
	case "null":
		return message.Null()
	case "bool":
		return message.Bool(text == "true")
	case "int8":
		return message.Int8(int8(number()))
	case "int64":
		return message.Int64(number())
	case "uint16":
		return message.Uint16(uint16(number()))
	case "float64":
		return message.Float64(float64(number()))
	case "string":
		return message.String(text)
	}
	t.Fatalf("value %q: unknown type %q", s, kind)
	return message.Value{}
}

// fields are the key=value tokens of a command; arguments are those named a:name.
type fields struct {
	t      *testing.T
	values map[string]string
	args   message.Table
}

func (f *fields) text(name, absent string) string {
	if v, ok := f.values[name]; ok {
		return v
	}
	return absent
}

func (f *fields) bool(name string, absent bool) bool {
	if v, ok := f.values[name]; ok {
		return v == "true"
	}
	return absent
}

func (f *fields) number(name string) uint64 {
	n, err := strconv.ParseUint(f.text(name, "0"), 10, 64)
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

func (f *fields) members() (ids []id.NodeID) {
	for m := range strings.SplitSeq(f.text("members", "n1,n2,n3"), ",") {
		if m != "" {
			ids = append(ids, id.NodeID(m))
		}
	}
	return ids
}

func (f *fields) limit(name string) int64 {
	n, err := strconv.ParseInt(f.text(name, "-1"), 10, 64)
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

// settings makes commands about vhosts, users, permissions, policies and parameters; nil
// for others.
func (f *fields) settings(verb, vhost string, word func(int) string) catalog.Command {
	onlyNew := f.bool("only_new", false)
	var tags []string
	if list := f.text("tags", ""); list != "" {
		tags = strings.Split(list, ",")
	}
	var vhostLimits catalog.VHostLimits
	for _, l := range vhostLimits.NamedLimits() {
		vhostLimits.SetLimit(l.Name, f.limit(l.Name))
	}
	var userLimits catalog.UserLimits
	for _, l := range userLimits.NamedLimits() {
		userLimits.SetLimit(l.Name, f.limit(l.Name))
	}
	switch verb {
	case "put-vhost":
		return &catalog.PutVHost{OnlyNew: onlyNew, VHost: catalog.VHost{
			Name: word(0), Description: f.text("description", ""), Tags: tags, Protected: f.bool("protected", false),
			DefaultQueueType: catalog.QueueType(f.text("default_queue_type", "quorum")), VHostLimits: vhostLimits,
			RefuseUnknown: f.bool("refuse_unknown", false),
		}}
	case "delete-vhost":
		return &catalog.DeleteVHost{Name: word(0)}
	case "set-vhost-limits":
		return &catalog.SetVHostLimits{VHost: word(0), Limits: vhostLimits}
	case "put-user":
		return &catalog.PutUser{OnlyNew: onlyNew, User: catalog.User{
			Name: word(0), PasswordHash: f.text("hash", ""), Algorithm: f.text("algorithm", ""), Tags: tags, UserLimits: userLimits,
		}}
	case "change-user":
		_, setTags := f.values["tags"]
		_, setHash := f.values["hash"]
		return &catalog.ChangeUser{
			Name: word(0), Create: f.bool("create", false), SetTags: setTags, Tags: tags,
			SetPassword: setHash, PasswordHash: f.text("hash", ""), Algorithm: f.text("algorithm", ""), Was: f.text("was", ""),
		}
	case "delete-user":
		return &catalog.DeleteUser{Name: word(0)}
	case "set-user-limits":
		return &catalog.SetUserLimits{User: word(0), Limits: userLimits}
	case "set-permission":
		return &catalog.SetPermission{OnlyNew: onlyNew, Permission: catalog.Permission{
			User: word(0), VHost: vhost, Configure: f.text("configure", ""), Write: f.text("write", ""), Read: f.text("read", ""),
		}}
	case "clear-permission":
		return &catalog.ClearPermission{User: word(0), VHost: vhost}
	case "set-topic-permission":
		return &catalog.SetTopicPermission{OnlyNew: onlyNew, TopicPermission: catalog.TopicPermission{
			User: word(0), VHost: vhost, Exchange: word(1), Write: f.text("write", ""), Read: f.text("read", ""),
		}}
	case "clear-topic-permission":
		return &catalog.ClearTopicPermission{User: word(0), VHost: vhost, Exchange: f.text("exchange", "")}
	case "put-policy":
		return &catalog.PutPolicy{OnlyNew: onlyNew, Policy: catalog.Policy{
			VHost: vhost, Name: word(0), Operator: f.bool("operator", false), Pattern: f.text("pattern", ""),
			ApplyTo: catalog.ApplyTo(f.text("apply-to", "all")), Priority: f.limit("priority"), Definition: f.args,
		}}
	case "delete-policy":
		return &catalog.DeletePolicy{VHost: vhost, Name: word(0), Operator: f.bool("operator", false)}
	case "put-parameter":
		return &catalog.PutParameter{OnlyNew: onlyNew, Parameter: catalog.Parameter{
			VHost: f.text("vhost", ""), Component: word(0), Name: word(1), Value: f.text("value", ""),
		}}
	case "delete-parameter":
		return &catalog.DeleteParameter{VHost: f.text("vhost", ""), Component: word(0), Name: word(1)}
	}
	return nil
}

func command(t *testing.T, tokens []token) catalog.Command {
	t.Helper()
	f := &fields{t: t, values: map[string]string{}}
	var words []string
	for _, tok := range tokens[1:] {
		if name, ok := strings.CutPrefix(tok.key, "a:"); ok {
			f.args = append(f.args, message.Field{Name: name, Value: value(t, tok.value)})
		} else if tok.key != "" {
			f.values[tok.key] = tok.value
		} else {
			words = append(words, tok.value)
		}
	}
	word := func(i int) string {
		if i >= len(words) {
			t.Fatalf("%v: word %d is missing", tokens, i+1)
		}
		return words[i]
	}
	vhost := f.text("vhost", "/")
	bind := func(kind catalog.DestinationKind) catalog.Bind {
		return catalog.Bind{
			VHost: vhost, Source: word(0), DestinationKind: kind, Destination: word(1), Key: f.text("key", ""), Arguments: f.args,
		}
	}
	if cmd := f.settings(tokens[0].value, vhost, word); cmd != nil {
		return cmd
	}
	switch verb := tokens[0].value; verb {
	case "declare-queue":
		return &catalog.DeclareQueue{
			VHost: vhost, Name: word(0), Type: catalog.QueueType(f.text("type", "quorum")), Durable: f.bool("durable", true),
			Exclusive: f.bool("exclusive", false), AutoDelete: f.bool("auto_delete", false), Arguments: f.args,
			Members: f.members(), Leader: id.NodeID(f.text("leader", "n1")), Home: id.Epoch(f.number("home")),
			Owner: catalog.Owner{
				Node: id.NodeID(f.text("owner", "")), Epoch: id.Epoch(f.number("owner-epoch")), Key: f.text("owner-key", ""),
			},
			DeclaredBy: f.text("by", ""),
		}
	case "delete-queue":
		return &catalog.DeleteQueue{VHost: vhost, Name: word(0), UID: id.QueueUID(f.number("uid"))}
	case "drain-delete-queue":
		return &catalog.DrainDeleteQueue{VHost: vhost, Name: word(0), UID: id.QueueUID(f.number("uid"))}
	case "set-members":
		return &catalog.SetQueueMembers{
			UID: id.QueueUID(f.number("uid")), Members: f.members(), Leader: id.NodeID(f.text("leader", "")),
		}
	case "begin-change":
		return &catalog.BeginMemberChange{
			UID: id.QueueUID(f.number("uid")), Join: id.NodeID(f.text("join", "")), Leave: id.NodeID(f.text("leave", "")),
			Size: int(f.number("size")),
		}
	case "settle-change":
		return &catalog.CompleteMemberStep{
			UID: id.QueueUID(f.number("uid")), Change: f.number("change"), Step: catalog.MemberStep(f.number("step")),
		}
	case "cancel-change":
		return &catalog.CancelMemberChange{UID: id.QueueUID(f.number("uid")), Change: f.number("change")}
	case "declare-exchange":
		return &catalog.DeclareExchange{
			VHost: vhost, Name: word(0), Type: catalog.ExchangeType(word(1)), Durable: f.bool("durable", true),
			AutoDelete: f.bool("auto_delete", false), Internal: f.bool("internal", false), Arguments: f.args,
		}
	case "delete-exchange":
		return &catalog.DeleteExchange{VHost: vhost, Name: word(0), IfUnused: f.bool("if_unused", false)}
	case "bind", "bind-exchange":
		b := bind(kindOf(verb))
		return &b
	case "unbind", "unbind-exchange":
		b := catalog.Unbind(bind(kindOf(verb)))
		return &b
	case "register-node":
		return &catalog.RegisterNode{
			ID: id.NodeID(word(0)), Address: f.text("address", ""), ClientAddress: f.text("client", ""), Epoch: id.Epoch(f.number("epoch")),
			Store: id.StoreID(f.text("store", "")), Fresh: f.bool("fresh", false), FirstEpoch: id.Epoch(f.number("first")), Empty: f.bool("empty", false),
		}
	case "leave-catalog":
		return &catalog.LeaveCatalog{ID: id.NodeID(word(0)), Store: id.StoreID(f.text("store", "")), Since: f.number("since")}
	case "node-out":
		return &catalog.NodeOut{ID: id.NodeID(word(0)), Since: f.number("since")}
	case "replace-node":
		return &catalog.ReplaceNode{ID: id.NodeID(word(0)), Epoch: id.Epoch(f.number("epoch")), AcceptLoss: f.bool("accept-loss", false)}
	case "forget-node":
		return &catalog.ForgetNode{ID: id.NodeID(word(0))}
	case "raise-version":
		return &catalog.RaiseVersion{Version: catalog.Version(f.number("to"))}
	case "skip-queue-uids":
		return &catalog.SkipQueueUIDs{}
	default:
		t.Fatalf("unknown command %q", verb)
		return nil
	}
}

func kindOf(verb string) catalog.DestinationKind {
	if strings.HasSuffix(verb, "-exchange") {
		return catalog.ToExchange
	}
	return catalog.ToQueue
}
