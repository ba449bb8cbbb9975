package catalog_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
)

// samples has every command with all its fields set.
func samples() map[string]catalog.Command {
	args := message.Table{{Name: "x-max-length", Value: message.Int64(5)}}
	return map[string]catalog.Command{
		"declare-queue": &catalog.DeclareQueue{
			VHost: "/", Name: "q", Type: catalog.QueueQuorum, Durable: true, Exclusive: true, AutoDelete: true,
			Arguments: args, Members: []id.NodeID{"n1", "n2"}, Leader: "n2", Owner: catalog.Owner{Node: "n3", Epoch: 7, Key: "k"},
		},
		"declare-transient": &catalog.DeclareQueue{
			VHost: "/", Name: "t", Type: catalog.QueueClassic, Members: []id.NodeID{"n1"}, Leader: "n1", Home: 300,
		},
		"declare-by": &catalog.DeclareQueue{
			VHost: "/", Name: "b", Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"n1"}, Leader: "n1", DeclaredBy: "u",
		},
		"delete-queue":       &catalog.DeleteQueue{VHost: "/", Name: "q", UID: 1024},
		"drain-delete-queue": &catalog.DrainDeleteQueue{VHost: "/", Name: "q", UID: 1024},
		"set-members":        &catalog.SetQueueMembers{UID: 1024, Members: []id.NodeID{"n1"}, Leader: "n1"},
		"declare-exchange": &catalog.DeclareExchange{
			VHost: "/", Name: "x", Type: catalog.ExchangeTopic, Durable: true, AutoDelete: true, Internal: true,
			Arguments: message.Table{{Name: "alternate-exchange", Value: message.String("ae")}},
		},
		"delete-exchange": &catalog.DeleteExchange{VHost: "/", Name: "x", IfUnused: true},
		"bind": &catalog.Bind{
			VHost: "/", Source: "x", DestinationKind: catalog.ToQueue, Destination: "q", Key: "a.#", Arguments: args,
		},
		"unbind": &catalog.Unbind{
			VHost: "/", Source: "x", DestinationKind: catalog.ToExchange, Destination: "y", Key: "k",
		},
		"register-node": &catalog.RegisterNode{ID: "n1", Address: "a:1", ClientAddress: "c:2", Epoch: 300},
		"register-store": &catalog.RegisterNode{
			ID: "n1", Address: "a:1", ClientAddress: "c:2", Epoch: 300, Store: "0badcafe", Fresh: true, FirstEpoch: 299, Empty: true,
		},
		"leave-catalog": &catalog.LeaveCatalog{ID: "n1", Store: "0badcafe", Since: 300},
		"node-out":      &catalog.NodeOut{ID: "n1", Since: 300},
		"replace-node":  &catalog.ReplaceNode{ID: "n1", Epoch: 300, AcceptLoss: true},
		"forget-node":   &catalog.ForgetNode{ID: "n1"},
		"begin-change":  &catalog.BeginMemberChange{UID: 1024, Join: "n1", Leave: "n2", Size: 3},
		"settle-change": &catalog.CompleteMemberStep{UID: 1024, Change: 300, Step: catalog.StepLeft},
		"cancel-change": &catalog.CancelMemberChange{UID: 1024, Change: 300},
		"put-vhost": &catalog.PutVHost{OnlyNew: true, VHost: catalog.VHost{
			Name: "v", Description: "d", Tags: []string{"a", "b"}, DefaultQueueType: catalog.QueueClassic, Tracing: true,
			Protected: true, MergePolicies: true, DelayedPublish: true, ImportDeaths: true,
			VHostLimits: vhostLimits(300, catalog.Unlimited),
		}},
		"put-strict-vhost": &catalog.PutVHost{VHost: catalog.VHost{
			Name: "v", DefaultQueueType: catalog.QueueQuorum, RefuseUnknown: true,
			VHostLimits: catalog.NoVHostLimits(),
		}},
		"delete-vhost": &catalog.DeleteVHost{Name: "v"},
		"vhost-limits": &catalog.SetVHostLimits{VHost: "v", Limits: vhostLimits(300, 0)},
		"put-user": &catalog.PutUser{OnlyNew: true, User: catalog.User{
			Name: "u", PasswordHash: "hash", Algorithm: "argon2id", Tags: []string{"monitoring"},
			UserLimits: userLimits(300, catalog.Unlimited),
		}},
		"delete-user": &catalog.DeleteUser{Name: "u"},
		"change-user": &catalog.ChangeUser{
			Name: "u", Create: true, SetTags: true, Tags: []string{"monitoring"}, SetPassword: true, PasswordHash: "h", Algorithm: "argon2id", Was: "w",
		},
		"user-limits": &catalog.SetUserLimits{User: "u", Limits: userLimits(300, 0)},
		"put-quota-vhost": &catalog.PutVHost{VHost: catalog.VHost{
			Name: "v", DefaultQueueType: catalog.QueueQuorum, VHostLimits: vhostQuotas(),
		}},
		"vhost-quotas":     &catalog.SetVHostLimits{VHost: "v", Limits: vhostQuotas()},
		"put-quota-user":   &catalog.PutUser{User: catalog.User{Name: "u", UserLimits: userQuotas()}},
		"user-quotas":      &catalog.SetUserLimits{User: "u", Limits: userQuotas()},
		"put-bounded-user": &catalog.PutUser{OnlyNew: true, User: catalog.User{Name: "u", UserLimits: userBounds()}},
		"user-bounds":      &catalog.SetUserLimits{User: "u", Limits: userBounds()},
		"set-permission": &catalog.SetPermission{OnlyNew: true, Permission: catalog.Permission{
			User: "u", VHost: "/", Configure: "c", Write: "w", Read: "r",
		}},
		"clear-permission": &catalog.ClearPermission{User: "u", VHost: "/"},
		"set-topic-permission": &catalog.SetTopicPermission{OnlyNew: true, TopicPermission: catalog.TopicPermission{
			User: "u", VHost: "/", Exchange: "amq.topic", Write: "w", Read: "r",
		}},
		"clear-topic-permission": &catalog.ClearTopicPermission{User: "u", VHost: "/", Exchange: "amq.topic"},
		"put-policy": &catalog.PutPolicy{OnlyNew: true, Policy: catalog.Policy{
			VHost: "/", Name: "p", Operator: true, Pattern: "^a", ApplyTo: catalog.ApplyToQueues, Priority: -300,
			Definition: message.Table{{Name: "max-length", Value: message.Int64(5)}},
		}},
		"delete-policy": &catalog.DeletePolicy{VHost: "/", Name: "p", Operator: true},
		"put-parameter": &catalog.PutParameter{OnlyNew: true, Parameter: catalog.Parameter{
			VHost: "/", Component: "c", Name: "n", Value: "{}",
		}},
		"delete-parameter": &catalog.DeleteParameter{VHost: "/", Component: "c", Name: "n"},
		"raise-version":    &catalog.RaiseVersion{Version: catalog.VersionStores},
		"skip-queue-uids":  &catalog.SkipQueueUIDs{},
	}
}

// populated is a catalog with something of everything.
func populated() *catalog.Catalog {
	c := catalog.New()
	for i, cmd := range []catalog.Command{
		&catalog.RegisterNode{ID: "n1", Address: "a:1", ClientAddress: "c:2", Epoch: 300},
		&catalog.DeclareQueue{
			VHost: "/", Name: "q", Type: catalog.QueueQuorum, Durable: true,
			Arguments: message.Table{{Name: "x-max-length", Value: message.Int64(5)}}, Members: []id.NodeID{"n1"}, Leader: "n1",
		},
		&catalog.DeclareExchange{VHost: "/", Name: "x", Type: catalog.ExchangeTopic, Durable: true},
		&catalog.Bind{VHost: "/", Source: "x", Destination: "q", Key: "a.#"},
		&catalog.Bind{VHost: "/", Source: "amq.fanout", DestinationKind: catalog.ToExchange, Destination: "x"},
	} {
		if r := c.Apply(uint64(i+1), int64(i)*1000, cmd); r.Err != nil {
			return nil
		}
	}
	return c
}

// governed is populated, with users, permissions, policies, parameters and another vhost.
func governed() *catalog.Catalog {
	c := populated()
	for _, name := range []string{
		"put-vhost", "vhost-limits", "put-user", "user-limits", "set-permission", "set-topic-permission", "put-policy", "put-parameter",
	} {
		if r := c.Apply(c.View().Index()+1, 9000, samples()[name]); r.Err != nil {
			return nil
		}
	}
	user := catalog.Policy{
		VHost: "/", Name: "p", Pattern: "b$", ApplyTo: catalog.ApplyToAll,
		Definition: message.Table{{Name: "expires", Value: message.Int64(5)}},
	}
	if r := c.Apply(c.View().Index()+1, 9000, &catalog.PutPolicy{Policy: user}); r.Err != nil {
		return nil
	}
	return c
}

// changing is populated, with a change of members in progress.
func changing() *catalog.Catalog {
	c := populated()
	for i, cmd := range []catalog.Command{
		&catalog.RegisterNode{ID: "n2", Address: "a:2", Epoch: 1},
		&catalog.BeginMemberChange{UID: id.FirstQueueUID, Join: "n2", Leave: "n1", Size: 2},
		&catalog.CancelMemberChange{UID: id.FirstQueueUID, Change: 7},
	} {
		if r := c.Apply(uint64(i+6), int64(i+5)*1000, cmd); r.Err != nil {
			return nil
		}
	}
	return c
}

// drainDeleting is populated, with the queue on its way out.
func drainDeleting() *catalog.Catalog {
	c := populated()
	if r := c.Apply(300, 9000, samples()["drain-delete-queue"]); r.Err != nil {
		return nil
	}
	return c
}

// raised is populated, with a finalised version.
func raised() *catalog.Catalog {
	c := populated()
	if r := c.Apply(300, 9000, samples()["raise-version"]); r.Err != nil {
		return nil
	}
	return c
}

// replaced is raised, with a node that was replaced, one that was forgotten, and one that has
// lost its member of the catalog group.
func replaced() *catalog.Catalog {
	c := raised()
	for _, cmd := range []catalog.Command{
		&catalog.RegisterNode{ID: "n1", Address: "a:1", ClientAddress: "c:2", Epoch: 301, Store: "s1"},
		&catalog.RegisterNode{ID: "n2", Address: "a:2", Epoch: 400, Store: "s2", Fresh: true, FirstEpoch: 400},
		&catalog.RegisterNode{ID: "n3", Address: "a:3", Epoch: 500, Store: "s3", Fresh: true, FirstEpoch: 500, Empty: true},
		&catalog.ReplaceNode{ID: "n2", Epoch: 400},
		&catalog.NodeOut{ID: "n2", Since: 304},
		&catalog.ForgetNode{ID: "n3"},
		&catalog.LeaveCatalog{ID: "n1", Store: "s1"},
	} {
		if r := c.Apply(c.View().Index()+1, 9000, cmd); r.Err != nil {
			return nil
		}
	}
	return c
}

func vhostLimits(connections, queues int64) catalog.VHostLimits {
	l := catalog.NoVHostLimits()
	l.MaxConnections, l.MaxQueues = connections, queues
	return l
}

func userLimits(connections, channels int64) catalog.UserLimits {
	l := catalog.NoUserLimits()
	l.MaxConnections, l.MaxChannels = connections, channels
	return l
}

// vhostQuotas are all limits, each with another value.
func vhostQuotas() catalog.VHostLimits {
	return catalog.VHostLimits{
		MaxConnections: 1, MaxQueues: 2, MaxChannels: 3, MaxConsumers: 4, MaxMessageRate: 1000, MaxByteRate: 1 << 20, MaxStoredBytes: 1 << 40,
	}
}

func userQuotas() catalog.UserLimits {
	l := userLimits(1, 3)
	l.MaxConsumers, l.MaxMessageRate, l.MaxByteRate = 4, 1000, 0
	return l
}

// userBounds are those and what bounds the queues that a user declares.
func userBounds() catalog.UserLimits {
	l := userQuotas()
	l.MaxQueues, l.MaxStoredBytes = 5, 1<<30
	return l
}

// strict is a catalog of version 3 with a vhost that refuses unknown arguments, and one that does not.
func strict() *catalog.Catalog {
	return made(&catalog.RaiseVersion{Version: catalog.VersionUsers}, &catalog.PutVHost{VHost: catalog.VHost{
		Name: "strict", DefaultQueueType: catalog.QueueQuorum, RefuseUnknown: true, VHostLimits: vhostLimits(0, 0),
	}})
}

// limited is a catalog of version 4 with quotas of a vhost and of a user.
func limited() *catalog.Catalog {
	return made(
		&catalog.RaiseVersion{Version: catalog.VersionQuotas},
		&catalog.PutVHost{VHost: catalog.VHost{Name: "strict", DefaultQueueType: catalog.QueueQuorum, RefuseUnknown: true, VHostLimits: vhostQuotas()}},
		&catalog.PutUser{User: catalog.User{Name: "u", UserLimits: userQuotas()}},
	)
}

// declared is a catalog of version 5: users from before and from then on, and queues of each, of nobody, and of somebody
// without a record.
func declared() *catalog.Catalog {
	queue := func(name, by string) catalog.Command {
		return &catalog.DeclareQueue{
			VHost: "/", Name: name, Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"n1"}, Leader: "n1", DeclaredBy: by,
		}
	}
	return made(
		&catalog.RegisterNode{ID: "n1", Address: "a:1", Epoch: 1},
		&catalog.PutUser{User: catalog.User{Name: "before", UserLimits: catalog.NoUserLimits()}},
		&catalog.RaiseVersion{Version: catalog.VersionDeclarers},
		&catalog.PutUser{User: catalog.User{Name: "u", UserLimits: userBounds()}},
		queue("a", "before"), queue("b", "u"), queue("c", ""), queue("d", "token"),
	)
}

// made is a catalog after some commands; nil if one is refused.
func made(cmds ...catalog.Command) *catalog.Catalog {
	c := catalog.New()
	for i, cmd := range cmds {
		if r := c.Apply(uint64(i+1), 1000, cmd); r.Err != nil {
			return nil
		}
	}
	return c
}

// The forms of a version never change: these bytes are in logs and snapshots.
func TestGoldenBytes(t *testing.T) {
	datadriven.RunTest(t, "testdata/golden.txt", func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "snapshot-empty":
			return hex.Dump(catalog.New().AppendSnapshot(nil))
		case "snapshot-governed":
			return hex.Dump(governed().AppendSnapshot(nil))
		case "snapshot-changing":
			return hex.Dump(changing().AppendSnapshot(nil))
		case "snapshot-drain-deleting":
			return hex.Dump(drainDeleting().AppendSnapshot(nil))
		case "snapshot-raised":
			return hex.Dump(raised().AppendSnapshot(nil))
		case "snapshot-strict":
			return hex.Dump(strict().AppendSnapshot(nil))
		case "snapshot-limited":
			return hex.Dump(limited().AppendSnapshot(nil))
		case "snapshot-declared":
			return hex.Dump(declared().AppendSnapshot(nil))
		case "snapshot-replaced":
			return hex.Dump(replaced().AppendSnapshot(nil))
		case "snapshot":
			return hex.Dump(populated().AppendSnapshot(nil))
		case "reply":
			return hex.Dump(catalog.AppendReply(nil, catalog.Reply{Index: 300, UID: 1024, Created: true, Deleted: true}))
		case "reply-error":
			return hex.Dump(catalog.AppendReply(nil, catalog.Reply{Index: 1, Err: &catalog.Error{
				Code: catalog.CodePreconditionFailed, Kind: "queue", Name: "q", VHost: "/", Arg: "a", Value: "v", Reason: "r",
			}}))
		case "reply-conflict":
			return hex.Dump(catalog.AppendReply(nil, catalog.Reply{Index: 1, Err: &catalog.Error{
				Code: catalog.CodePreconditionFailed, Kind: "queue", Name: "q", VHost: "/", Arg: "a", Value: "v", Current: "c", Reason: "r",
			}}))
		}
		cmd := samples()[d.Cmd]
		if cmd == nil {
			d.Fatalf(t, "no sample %q", d.Cmd)
		}
		return hex.Dump(catalog.AppendCommand(nil, cmd))
	})
}

// A snapshot of before queues could be on their way out is read: none is.
func TestSnapshotBefore(t *testing.T) {
	b, err := hex.DecodeString("0205c03e810801026e3103613a3103633a32ac0200000001012f00000671756f72756d0000000000010101017805746f7069" +
		"630100000001017180080671756f72756d01000017010c782d6d61782d6c656e67746808050000000000000001026e31026e" +
		"31d00f0200000002012f0a616d712e66616e6f75740101780000012f017800017103612e230000000000")
	if err != nil {
		t.Fatal(err)
	}
	c := catalog.New()
	if err := c.Restore(b); err != nil {
		t.Fatal(err)
	}
	if got, want := c.AppendSnapshot(nil), populated().AppendSnapshot(nil); !bytes.Equal(got, want) {
		t.Errorf("restored as\n%x, want\n%x", got, want)
	}
}

// Bytes that were cut anywhere, or have one too many, are refused.
func TestDecodeCut(t *testing.T) {
	cut := func(name string, b []byte, decode func([]byte) error) {
		for n := range len(b) {
			if decode(b[:n]) == nil {
				t.Errorf("%s: decoded the first %d of %d bytes", name, n, len(b))
			}
		}
		if decode(append(b, 0)) == nil {
			t.Errorf("%s: decoded with a byte too many", name)
		}
	}
	for name, cmd := range samples() {
		cut(name, catalog.AppendCommand(nil, cmd), func(b []byte) error {
			_, err := catalog.DecodeCommand(b)
			return err
		})
	}
	cut("snapshot", changing().AppendSnapshot(nil), catalog.New().Restore)
	cut("snapshot", raised().AppendSnapshot(nil), catalog.New().Restore)
	cut("snapshot", replaced().AppendSnapshot(nil), catalog.New().Restore)
	cut("snapshot", governed().AppendSnapshot(nil), catalog.New().Restore)
	cut("snapshot", strict().AppendSnapshot(nil), catalog.New().Restore)
	cut("snapshot", limited().AppendSnapshot(nil), catalog.New().Restore)
	cut("snapshot", declared().AppendSnapshot(nil), catalog.New().Restore)
}

func TestDecodeNamesTheFault(t *testing.T) {
	for _, c := range []struct {
		b    string
		want string
	}{
		{"\x08\x01", "catalog: command: version at byte 0: written by a newer version of Quorate: format version 8, this build reads version 7"},
		{"\x00\x01", "version at byte 0: format version 0, this build reads versions 1 to 7"},
		{"\x02\x09\x02n1", "version at byte 0: form 2 of a command that has form 1"},
		{"\x01\x1c", "version 1 is never raised to"},
		{"\x01\x63", "unknown command 99"},
		{"\x01\x02\x05/", "vhost at byte 3: cut short"},
	} {
		if _, err := catalog.DecodeCommand([]byte(c.b)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.b, err, c.want)
		}
	}
	c := populated()
	before := c.AppendSnapshot(nil)
	if err := c.Restore(before[:len(before)-1]); err == nil {
		t.Fatal("restored a snapshot that was cut")
	}
	if !bytes.Equal(c.AppendSnapshot(nil), before) {
		t.Error("a failed Restore changed the state")
	}
}

// A command that members could not decode is found before it is proposed.
func TestCheckCommand(t *testing.T) {
	for name, cmd := range samples() {
		if err := catalog.CheckCommand(cmd); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, cmd := range map[string]catalog.Command{
		"members": &catalog.SetQueueMembers{Members: make([]id.NodeID, catalog.MaxMembers+1)},
		"table":   &catalog.Bind{Arguments: make(message.Table, message.MaxHeaders+1)},
		"version": &catalog.RaiseVersion{Version: catalog.NewestVersion + 1},
	} {
		if catalog.CheckCommand(cmd) == nil {
			t.Errorf("%s: too many were accepted", name)
		}
	}
}

// What another build can read differs from what none can.
func TestNewer(t *testing.T) {
	newest := raised().AppendSnapshot(nil)
	layout, version := bytes.Clone(newest), bytes.Clone(newest)
	layout[0]++
	version[1] = byte(catalog.NewestVersion) + 1
	for name, decode := range map[string]struct {
		newer bool
		err   error
	}{
		"command of the next version": {true, decodeError([]byte{byte(catalog.NewestVersion) + 1, 1})},
		"command of an unknown kind":  {true, decodeError([]byte{1, 99})},
		"raise to the next version":   {true, decodeError([]byte{byte(catalog.NewestVersion) + 1, 28})},
		"command that was cut":        {false, decodeError([]byte{1, 2, 5})},
		"command of no version":       {false, decodeError([]byte{0, 2, 5})},
		"snapshot of the next layout": {true, catalog.New().Restore(layout)},
		"snapshot of the next version": {
			true, catalog.New().Restore(version),
		},
		"snapshot that was cut": {false, catalog.New().Restore(newest[:9])},
	} {
		if decode.err == nil || errors.Is(decode.err, catalog.ErrNewer) != decode.newer {
			t.Errorf("%s: error %v, want newer %v", name, decode.err, decode.newer)
		}
	}
}

func decodeError(b []byte) error {
	_, err := catalog.DecodeCommand(b)
	return err
}

// While nothing is finalised a snapshot has the layout that builds read which know no
// finalised version (TestGoldenBytes has its bytes).
func TestVersionOfSnapshots(t *testing.T) {
	for _, c := range []struct {
		catalog *catalog.Catalog
		layout  byte
		version catalog.Version
	}{
		{populated(), 3, catalog.VersionFirst},
		{raised(), 4, catalog.VersionStores},
	} {
		b := c.catalog.AppendSnapshot(nil)
		restored := catalog.New()
		if err := restored.Restore(b); err != nil {
			t.Fatal(err)
		}
		if b[0] != c.layout || c.catalog.View().Version() != c.version || restored.View().Version() != c.version {
			t.Errorf("layout %d, version %d, restored %d; want layout %d, version %d",
				b[0], c.catalog.View().Version(), restored.View().Version(), c.layout, c.version)
		}
	}
}

func FuzzDecodeCommand(f *testing.F) {
	for _, cmd := range samples() {
		f.Add(catalog.AppendCommand(nil, cmd))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		cmd, err := catalog.DecodeCommand(b)
		if err != nil {
			return
		}
		if again := catalog.AppendCommand(nil, cmd); !bytes.Equal(again, b) {
			t.Fatalf("decoded %x\nappended %x", b, again)
		}
		// Whatever can be decoded can be applied.
		for _, c := range []*catalog.Catalog{populated(), declared()} {
			c.Apply(100, 100, cmd)
			if err := catalog.New().Restore(c.AppendSnapshot(nil)); err != nil {
				t.Fatalf("after %+v: %v", cmd, err)
			}
		}
	})
}

func FuzzRestore(f *testing.F) {
	f.Add(catalog.New().AppendSnapshot(nil))
	f.Add(changing().AppendSnapshot(nil))
	f.Add(strict().AppendSnapshot(nil))
	f.Add(limited().AppendSnapshot(nil))
	f.Add(declared().AppendSnapshot(nil))
	f.Add(governed().AppendSnapshot(nil))
	f.Add(drainDeleting().AppendSnapshot(nil))
	f.Add(raised().AppendSnapshot(nil))
	f.Add(replaced().AppendSnapshot(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := catalog.New()
		if c.Restore(b) != nil {
			return
		}
		if again := c.AppendSnapshot(nil); again[0] == b[0] && !bytes.Equal(again, b) {
			t.Fatalf("restored %x\nappended %x", b, again)
		}
		if _, err := c.View().Route("/", "amq.fanout", &catalog.Publication{Keys: []string{"k"}}, nil); err != nil {
			// Only a snapshot without the vhost "/" may say so.
			if _, ok := c.View().Exchange("/", ""); ok {
				t.Fatal(err)
			}
		}
	})
}

func FuzzDecodeReply(f *testing.F) {
	f.Add(catalog.AppendReply(nil, catalog.Reply{Index: 1, Err: &catalog.Error{Code: catalog.CodeNotFound}}))
	f.Add(catalog.AppendReply(nil, catalog.Reply{Index: 1, Err: &catalog.Error{Code: catalog.CodePreconditionFailed, Current: "c"}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := catalog.DecodeReply(b)
		if err != nil {
			return
		}
		if again := catalog.AppendReply(nil, r); !bytes.Equal(again, b) {
			t.Fatalf("decoded %x\nappended %x", b, again)
		}
	})
}
