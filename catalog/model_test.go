package catalog_test

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
)

// chance makes commands over few names, so that they meet each other.
type chance struct{ *rand.Rand }

func (r chance) of(list ...string) string { return list[r.IntN(len(list))] }

func (r chance) queue() string { return r.of("q1", "q2", "q3", "q4", "q5", "q6") }
func (r chance) exchange() string {
	return r.of("d", "f", "t", "h", "amq.topic", "amq.direct", "ad", "mod", "ran", "loc")
}
func (r chance) node() id.NodeID { return id.NodeID(r.of("n1", "n2", "n3", "n4")) }

func (r chance) key() string {
	words := make([]string, r.IntN(4))
	for i := range words {
		words[i] = r.of("a", "b", "", "*", "#", "a")
	}
	return strings.Join(words, ".")
}

func (r chance) args() message.Table {
	var t message.Table
	for _, name := range []string{"a", "b", "x-c"} {
		if r.IntN(4) == 0 {
			t.Set(name, []message.Value{message.Int8(1), message.Int64(1), message.String("1"), message.Null()}[r.IntN(4)])
		}
	}
	if r.IntN(4) == 0 {
		t.Set("x-match", message.String(r.of("all", "any", "all-with-x", "any-with-x")))
	}
	return t
}

// store returns a command about a node's store.
func (r chance) store() catalog.Command {
	n, epoch, store := r.node(), id.Epoch(r.IntN(3)), id.StoreID(r.of("", "s", "t"))
	switch r.IntN(8) {
	case 0:
		return &catalog.LeaveCatalog{ID: n, Store: store, Since: uint64(r.IntN(100))}
	case 1, 2:
		return &catalog.NodeOut{ID: n, Since: uint64(r.IntN(100))}
	case 3:
		return &catalog.ReplaceNode{ID: n, Epoch: epoch, AcceptLoss: r.IntN(2) == 0}
	}
	c := &catalog.RegisterNode{ID: n, Address: r.of("a:1", "b:1"), Epoch: epoch, Store: store}
	if store != "" {
		c.Fresh, c.FirstEpoch, c.Empty = r.IntN(2) == 0, id.Epoch(r.IntN(3)), r.IntN(2) == 0
	}
	return c
}

func (r chance) command() catalog.Command {
	members := []id.NodeID{r.node()}
	if n := r.node(); n != members[0] {
		members = append(members, n)
	}
	bind := catalog.Bind{
		VHost: "/", Source: r.exchange(), Destination: r.queue(), Key: r.key(), Arguments: r.args(),
	}
	if r.IntN(3) == 0 {
		bind.DestinationKind, bind.Destination = catalog.ToExchange, r.exchange()
	}
	switch r.IntN(24) {
	case 23:
		if r.IntN(4) == 0 {
			return &catalog.RaiseVersion{Version: catalog.VersionStores + catalog.Version(r.IntN(int(catalog.NewestVersion-catalog.VersionFirst)))}
		}
		return r.settings()
	case 20, 21, 22:
		return r.settings()
	case 0, 1, 2:
		d := &catalog.DeclareQueue{
			VHost: "/", Name: r.queue(), Type: catalog.QueueQuorum, Durable: true, Members: members, Leader: members[0],
		}
		switch r.IntN(4) {
		case 0:
			d.Exclusive, d.Owner = true, catalog.Owner{Node: r.node(), Epoch: id.Epoch(r.IntN(3)), Key: "k"}
		case 1:
			d.Durable, d.Members, d.Home = false, members[:1], id.Epoch(r.IntN(3))
		}
		d.VHost, d.DeclaredBy = r.of("/", "/", "v1"), r.of("", "u1", "u2", "token")
		return d
	case 3:
		if r.IntN(3) == 0 {
			return &catalog.DrainDeleteQueue{VHost: "/", Name: r.queue()}
		}
		return &catalog.DeleteQueue{VHost: "/", Name: r.queue()}
	case 4:
		return &catalog.SetQueueMembers{UID: id.FirstQueueUID + id.QueueUID(r.IntN(20)), Members: members}
	case 5, 6:
		name := r.exchange()
		kind := map[string]catalog.ExchangeType{
			"d": catalog.ExchangeDirect, "f": catalog.ExchangeFanout, "t": catalog.ExchangeTopic, "h": catalog.ExchangeHeaders,
			"ad": catalog.ExchangeTopic, "mod": catalog.ExchangeModulusHash, "ran": catalog.ExchangeRandom,
			"loc": catalog.ExchangeLocalRandom,
		}[name]
		x := &catalog.DeclareExchange{VHost: "/", Name: name, Type: kind, Durable: true, AutoDelete: name == "ad"}
		if r.IntN(2) == 0 {
			x.Arguments = message.Table{{Name: "alternate-exchange", Value: message.String(r.exchange())}}
		}
		return x
	case 7:
		return &catalog.DeleteExchange{VHost: "/", Name: r.exchange(), IfUnused: r.IntN(2) == 0}
	case 8:
		u := catalog.Unbind(bind)
		return &u
	case 9:
		return r.store()
	case 10:
		return &catalog.ForgetNode{ID: r.node()}
	case 16, 17:
		g := &catalog.BeginMemberChange{UID: id.FirstQueueUID + id.QueueUID(r.IntN(20)), Join: r.node(), Leave: r.node(), Size: r.IntN(4)}
		if r.IntN(3) == 0 {
			g.Join = ""
		}
		return g
	case 18:
		return &catalog.CompleteMemberStep{
			UID: id.FirstQueueUID + id.QueueUID(r.IntN(20)), Change: uint64(r.IntN(300)), Step: catalog.MemberStep(r.IntN(5)),
		}
	case 19:
		return &catalog.CancelMemberChange{UID: id.FirstQueueUID + id.QueueUID(r.IntN(20)), Change: uint64(r.IntN(300))}
	}
	return &bind
}

// limit is none, mostly: what needs a newer version is refused before it is finalised.
func (r chance) limit() int64 {
	if r.IntN(4) > 0 {
		return catalog.Unlimited
	}
	return int64(r.IntN(10))
}

func (r chance) vhostLimits(queues int64) catalog.VHostLimits {
	l := vhostLimits(catalog.Unlimited, queues)
	l.MaxStoredBytes = r.limit()
	return l
}

// settings is a command about vhosts, users, permissions, policies and parameters.
func (r chance) settings() catalog.Command {
	user, vhost, onlyNew := r.of("u1", "u2"), r.of("/", "v1", "v2"), r.IntN(2) == 0
	limit := int64(r.IntN(10) - 1)
	switch r.IntN(14) {
	case 0, 1:
		return &catalog.PutVHost{OnlyNew: onlyNew, VHost: catalog.VHost{
			Name: r.of("v1", "v2"), DefaultQueueType: catalog.QueueQuorum, Protected: r.IntN(4) == 0, RefuseUnknown: r.IntN(4) == 0,
			VHostLimits: r.vhostLimits(limit),
		}}
	case 2:
		return &catalog.DeleteVHost{Name: r.of("v1", "v2")}
	case 3:
		return &catalog.SetVHostLimits{VHost: vhost, Limits: r.vhostLimits(limit)}
	case 4, 5:
		u := catalog.User{Name: user, PasswordHash: r.of("a", "b"), Tags: []string{r.of(catalog.TagAdministrator, "t")}}
		u.UserLimits = userLimits(limit, -1)
		u.MaxConsumers, u.MaxQueues = min(r.limit(), limit), r.limit()
		return &catalog.PutUser{OnlyNew: onlyNew, User: u}
	case 6:
		if r.IntN(2) == 0 {
			return &catalog.ChangeUser{
				Name: user, Create: onlyNew, SetTags: r.IntN(2) == 0, SetPassword: r.IntN(2) == 0, PasswordHash: r.of("a", ""), Was: r.of("", "a"),
			}
		}
		return &catalog.DeleteUser{Name: user}
	case 7:
		return &catalog.SetPermission{OnlyNew: onlyNew, Permission: catalog.Permission{User: user, VHost: vhost, Write: r.of("a", "b")}}
	case 8:
		return &catalog.ClearPermission{User: user, VHost: vhost}
	case 9:
		return &catalog.SetTopicPermission{OnlyNew: onlyNew, TopicPermission: catalog.TopicPermission{
			User: user, VHost: vhost, Exchange: r.of("t", "amq.topic", "d"), Read: r.of("a", "b"),
		}}
	case 10:
		return &catalog.ClearTopicPermission{User: user, VHost: vhost, Exchange: r.of("", "t", "amq.topic")}
	case 11:
		return &catalog.PutPolicy{OnlyNew: onlyNew, Policy: catalog.Policy{
			VHost: vhost, Name: r.of("p1", "p2"), Operator: r.IntN(2) == 0, Pattern: r.of("a", "b"), ApplyTo: catalog.ApplyToAll,
			Definition: message.Table{{Name: "max-length", Value: message.Int64(limit)}},
		}}
	case 12:
		return &catalog.DeletePolicy{VHost: vhost, Name: r.of("p1", "p2"), Operator: r.IntN(2) == 0}
	}
	p := catalog.Parameter{VHost: r.of("", "/", "v1"), Component: "c", Name: r.of("n1", "n2"), Value: r.of("1", "2")}
	if r.IntN(3) == 0 {
		return &catalog.DeleteParameter{VHost: p.VHost, Component: p.Component, Name: p.Name}
	}
	return &catalog.PutParameter{OnlyNew: onlyNew, Parameter: p}
}

// Random commands: replay gives equal bytes, a snapshot restored at every step does, old
// views do not change, and routing agrees with a naive reading of the bindings.
func TestRandomCommands(t *testing.T) {
	seeds, steps := uint64(20), 300
	if testing.Short() {
		seeds, steps = 3, 100
		t.Logf("short: %d seeds of %d commands", seeds, steps)
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := chance{rand.New(rand.NewPCG(seed, 1))}
			main, replay := catalog.New(), catalog.New()
			for i := range steps {
				cmd := r.command()
				restored := catalog.New()
				if err := restored.Restore(main.AppendSnapshot(nil)); err != nil {
					t.Fatal(err)
				}
				old := main.View()
				before := dump(old)
				reply := main.Apply(uint64(i+1), int64(r.IntN(1000)), cmd)
				if dump(old) != before {
					t.Fatalf("step %d: %+v changed an old view", i, cmd)
				}
				want := main.AppendSnapshot(nil)
				if got := restored.Apply(uint64(i+1), main.View().Now(), cmd); !reflect.DeepEqual(got, reply) {
					t.Fatalf("step %d: restored catalog replied %+v, want %+v", i, got, reply)
				}
				replay.Apply(uint64(i+1), main.View().Now(), cmd)
				if !bytes.Equal(restored.AppendSnapshot(nil), want) || !bytes.Equal(replay.AppendSnapshot(nil), want) {
					t.Fatalf("step %d: snapshots differ after %T %+v", i, cmd, cmd)
				}
				checkRoute(t, r, main.View())
				checkDeclarers(t, old, main.View())
				if old.Version() >= catalog.VersionUsers && hasAdministrator(old) && !hasAdministrator(main.View()) {
					t.Fatalf("step %d: after %+v no administrator can log in", i, cmd)
				}
			}
		})
	}
}

// checkDeclarers compares the counts of users' queues with a naive count, and with the limits (VH-17).
func checkDeclarers(t *testing.T, old, v *catalog.View) {
	t.Helper()
	counts := map[string]int{}
	for q := range v.Queues() {
		if u, ok := v.DeclarerOf(q); ok {
			counts[u.Name]++
		}
	}
	for _, name := range []string{"u1", "u2", "token"} {
		n := v.QueueCountOf(name)
		if n != counts[name] {
			t.Fatalf("user %q is counted %d queues, it has %d:\n%s", name, n, counts[name], dump(v))
		}
		if u, ok := v.User(name); ok && u.MaxQueues != catalog.Unlimited && n > old.QueueCountOf(name) && int64(n) > u.MaxQueues {
			t.Fatalf("user %q has declared queue %d of %d", name, n, u.MaxQueues)
		}
	}
}

// hasAdministrator reports whether an administrator can log in (VH-10).
func hasAdministrator(v *catalog.View) bool {
	for u := range v.Users() {
		if slices.Contains(u.Tags, catalog.TagAdministrator) && u.PasswordHash != "" && u.MaxConnections != 0 {
			return true
		}
	}
	return false
}

func dump(v *catalog.View) string {
	var b strings.Builder
	for q := range v.Queues() {
		fmt.Fprintf(&b, "%+v\n", *q)
	}
	for x := range v.Exchanges() {
		fmt.Fprintf(&b, "%+v\n", *x)
	}
	for x := range v.Bindings() {
		fmt.Fprintf(&b, "%+v\n", *x)
	}
	for u := range v.Users() {
		fmt.Fprintf(&b, "%+v\n", *u)
	}
	for x := range v.VHosts() {
		fmt.Fprintf(&b, "%+v\n", *x)
		for p := range v.Permissions(x.Name) {
			fmt.Fprintf(&b, "%+v\n", *p)
		}
		for p := range v.Policies(x.Name, false) {
			fmt.Fprintf(&b, "%+v\n", *p)
		}
	}
	return b.String()
}

func checkRoute(t *testing.T, r chance, v *catalog.View) {
	t.Helper()
	keys := []string{strings.NewReplacer("*", "c", "#", "d").Replace(r.key()), r.queue()}
	headers := r.args()
	local := r.IntN(6)
	p := catalog.Publication{Keys: keys, Headers: headers, Chance: r.Uint64(), Local: func(uid id.QueueUID) bool {
		return uid%6 == id.QueueUID(local)
	}}
	for _, x := range []string{"", "d", "f", "t", "h", "ad", "amq.topic", "amq.direct", "mod", "ran", "loc"} {
		got, err := v.Route("/", x, &p, nil)
		if _, exists := v.Exchange("/", x); !exists {
			if err == nil {
				t.Fatalf("routed through exchange %q, which does not exist", x)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if want := naiveRoute(v, x, &p); !slices.Equal(got, want) {
			t.Fatalf("route %q %q %v: got %v, want %v; bindings:\n%s", x, keys, headers, got, want, dump(v))
		}
	}
}

// naiveRoute follows EX-3 to EX-12 by looking at all bindings each time.
func naiveRoute(v *catalog.View, exchange string, p *catalog.Publication) []id.QueueUID {
	uids := map[id.QueueUID]bool{}
	visited := []string{exchange}
	visit := func(name string) {
		if !slices.Contains(visited, name) {
			visited = append(visited, name)
		}
	}
	for i := 0; i < len(visited); i++ {
		x, ok := v.Exchange("/", visited[i])
		if !ok {
			continue
		}
		found := false
		for _, b := range naiveChoice(v, x, p) {
			found = true
			if b.DestinationKind == catalog.ToExchange {
				visit(b.Destination)
			} else if q, ok := v.Queue("/", b.Destination); ok {
				uids[q.UID] = true
			}
		}
		for _, k := range p.Keys {
			if q, ok := v.Queue("/", k); ok && x.Name == "" && q.DrainDeleting == 0 {
				found, uids[q.UID] = true, true
			}
		}
		if ae, ok := x.AlternateExchange(); ok && !found {
			visit(ae)
		}
	}
	return slices.Sorted(maps.Keys(uids))
}

// naiveChoice returns the bindings of an exchange that a message takes.
func naiveChoice(v *catalog.View, x *catalog.Exchange, p *catalog.Publication) (taken []*catalog.Binding) {
	for b := range v.Bindings() {
		if b.Source != x.Name || !naiveMatch(x, b, p.Keys, p.Headers) {
			continue
		}
		if q, ok := v.Queue("/", b.Destination); !ok || p.Local(q.UID) || x.Type != catalog.ExchangeLocalRandom {
			taken = append(taken, b)
		}
	}
	if !slices.Contains([]string{"mod", "ran", "loc"}, x.Name) || len(taken) == 0 {
		return taken
	}
	slices.SortStableFunc(taken, func(a, b *catalog.Binding) int {
		return cmp.Or(cmp.Compare(a.Destination, b.Destination), cmp.Compare(a.Key, b.Key), cmp.Compare(a.DestinationKind, b.DestinationKind))
	})
	n := p.Chance
	if x.Name == "mod" {
		n = naiveHash(p.Keys[0])
	}
	return taken[n%uint64(len(taken)):][:1]
}

// naiveHash is the hash that docs/formats/catalog.md defines.
func naiveHash(s string) uint64 {
	f := fnv.New64a()
	f.Write([]byte(s))
	h := f.Sum64()
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

func naiveMatch(x *catalog.Exchange, b *catalog.Binding, keys []string, headers message.Table) bool {
	switch x.Type {
	case catalog.ExchangeDirect:
		return slices.Contains(keys, b.Key)
	case catalog.ExchangeTopic:
		return slices.ContainsFunc(keys, func(k string) bool { return naiveTopic(split(b.Key), split(k)) })
	case catalog.ExchangeHeaders:
		return naiveHeaders(b.Arguments, headers)
	case catalog.ExchangeFanout, catalog.ExchangeModulusHash, catalog.ExchangeRandom, catalog.ExchangeLocalRandom,
		catalog.ExchangeConsistentHash:
	}
	return true
}

func split(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

func naiveTopic(pattern, words []string) bool {
	if len(pattern) == 0 {
		return len(words) == 0
	}
	if pattern[0] == "#" {
		return naiveTopic(pattern[1:], words) || (len(words) > 0 && naiveTopic(pattern, words[1:]))
	}
	return len(words) > 0 && (pattern[0] == "*" || pattern[0] == words[0]) && naiveTopic(pattern[1:], words[1:])
}

func naiveHeaders(args, headers message.Table) bool {
	mode := "all"
	if v, ok := args.Get("x-match"); ok {
		mode, _ = v.AsString()
	}
	matched, asked := 0, 0
	for _, f := range args {
		if f.Name == "x-match" || (strings.HasPrefix(f.Name, "x-") && !strings.HasSuffix(mode, "-with-x")) {
			continue
		}
		asked++
		if h, ok := headers.Get(f.Name); ok && (f.Value.IsNull() || f.Value.EqualClass(h)) {
			matched++
		}
	}
	if strings.HasPrefix(mode, "any") {
		return matched > 0
	}
	return matched == asked
}

// A binding key with many "#" meets a routing key of many words in a time that grows with
// their product, not with the number of ways to match: 60 "#" would never end otherwise.
func TestTopicManyHashes(t *testing.T) {
	c := populated()
	pattern := strings.Repeat("#.a.", 60) + "#"
	if r := c.Apply(10, 0, &catalog.Bind{VHost: "/", Source: "amq.topic", Destination: "q", Key: pattern}); r.Err != nil {
		t.Fatal(r.Err)
	}
	for words, want := range map[int]int{59: 0, 60: 1, 127: 1} {
		key := strings.Repeat("a.", words-1) + "a"
		got, err := c.View().Route("/", "amq.topic", &catalog.Publication{Keys: []string{key}}, nil)
		if err != nil || len(got) != want {
			t.Errorf("%d words: %v, %v; want %d queues", words, got, err, want)
		}
	}
}
