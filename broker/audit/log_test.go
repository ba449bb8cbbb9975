package audit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/traffic"
)

type callerKey struct{}

func user(name string, administrator bool) context.Context {
	who := Caller{User: name, Mechanism: MechanismPassword, Administrator: administrator}
	return context.WithValue(context.Background(), callerKey{}, who)
}

// testAudit returns a log that keeps no records, and writes its lines to w.
func testAudit(w io.Writer, refused *atomic.Uint64) *Log {
	return New(Config{
		Who:  func(ctx context.Context) Caller { who, _ := ctx.Value(callerKey{}).(Caller); return who },
		Keep: func(event.AuditList, event.Event) {}, Refused: refused, Tried: func(string, string, string, bool) {}, Log: slog.New(slog.NewTextHandler(w, nil)),
	})
}

// auditOf runs n acts and returns the lines of the log.
func auditOf(t *testing.T, ctx context.Context, x Act, n int, do func(context.Context) error) []string { //nolint:revive // a test's helper
	t.Helper()
	var log bytes.Buffer
	l := testAudit(&log, nil)
	for range n {
		_ = l.Audited(ctx, x, do) // do's error does not matter here
	}
	return strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
}

func changing(ctx context.Context) error {
	NotesOf(ctx).Note(Change{Field: "f", Before: "a", After: "b\n"})
	return nil
}

// AU-4: the lines about what clients do are limited, and those about administration are not. The
// lines about refusals are limited too, unless an administrator is refused.
func TestAuditLines(t *testing.T) {
	refuse := func(context.Context) error { return &failure.Error{Class: failure.AccessRefused, Reason: "no"} }
	const n = 3 * UseLines
	declare, put := Act{Operation: OpQueueDeclare, Kind: "queue", Name: "q"}, Act{Operation: OpUserPut, Kind: "user", Name: "u"}
	for _, row := range []struct {
		name    string
		ctx     context.Context
		act     Act
		do      func(context.Context) error
		bounded bool
	}{
		{"declares", user("root", true), declare, changing, true},
		{"users", user("root", true), put, changing, false},
		{"refused administrators", user("root", true), put, refuse, false},
		{"refused users", user("app", false), put, refuse, true},
		{"policies of policymakers", user("app", false), Act{Operation: OpPolicyPut}, changing, false},
	} {
		lines := auditOf(t, row.ctx, row.act, n, row.do)
		if row.bounded != (len(lines) < n) || len(lines) < UseLines {
			t.Errorf("%s: %d lines of %d", row.name, len(lines), n)
		}
	}
}

func TestAuditLine(t *testing.T) {
	x := Act{
		Operation: OpUserPut, Kind: "user", Name: "new\x1b[2J\n" + strings.Repeat("x", 1000) + "\xff",
		From: Origin{Protocol: "grpc", Address: "192.0.2.1:5", Client: "app\x00\xfe"},
	}
	line := auditOf(t, user("root", true), x, 1, changing)
	if len(line) != 1 || len(line[0]) > 1000 || strings.ContainsAny(line[0], "\x00\x1b") || !utf8.ValidString(line[0]) ||
		!strings.Contains(line[0], `msg=audit operation=user.put outcome=done user=root mechanism=password protocol=grpc address=192.0.2.1:5 client="app\x00�" vhost="" object=user name="new\x1b[2J\n`) ||
		!strings.Contains(line[0], `changes="f: \"a\" -> \"b\\n\""`) {
		t.Errorf("%q", line)
	}
}

// An act that changes nothing leaves no record. An act of the node itself leaves one only if it
// succeeds.
func TestAuditOfNothing(t *testing.T) {
	nothing := func(context.Context) error { return nil }
	refuse := func(context.Context) error { return errors.New("no") }
	for name, lines := range map[string][]string{
		"nothing":        auditOf(t, user("root", false), Act{Operation: OpQueueDelete}, 1, nothing),
		"refused itself": auditOf(t, user("root", false), Act{Operation: OpUserPut, ByItself: true}, 1, refuse),
	} {
		if len(lines) != 1 || lines[0] != "" {
			t.Errorf("%s: %q", name, lines)
		}
	}
}

func TestOutcome(t *testing.T) {
	for want, errs := range map[string][]error{
		event.Refused: {&failure.Error{Class: failure.PreconditionFailed}, failure.Translate(traffic.ErrUnavailable, failure.Error{}), &failure.Error{Class: failure.Unavailable}},
		event.Unknown: {failure.Translate(traffic.ErrUnknownOutcome, failure.Error{}), context.Canceled, context.DeadlineExceeded, &failure.Error{Class: failure.Internal}},
		event.Done:    {nil},
	} {
		for _, err := range errs {
			if got := outcomeOf(false, err); got != want {
				t.Errorf("%v is %s, want %s", err, got, want)
			}
		}
	}
	if got := outcomeOf(true, context.Canceled); got != event.Done {
		t.Errorf("what has changed is %s", got)
	}
}

func TestDifferences(t *testing.T) {
	secret := func(v string) field { return field{name: "password", value: v, secret: true} }
	for _, row := range []struct {
		before, after []field
		want          []Change
	}{
		{nil, []field{{name: "a", value: "1"}, {name: "b"}}, []Change{{Field: "a", After: "1"}}},
		{[]field{{name: "a", value: "1"}}, []field{{name: "a", value: "1"}}, nil},
		{[]field{{name: "a", value: "1"}, {name: "b", value: "2"}}, []field{{name: "b", value: "3"}}, []Change{{Field: "b", Before: "2", After: "3"}, {Field: "a", Before: "1"}}},
		{nil, []field{secret("$hash")}, []Change{{Field: "password", Before: "", After: "set"}}},
		{[]field{secret("$hash")}, []field{secret("$other")}, []Change{{Field: "password", Before: "set", After: "changed"}}},
		{[]field{secret("$hash")}, nil, []Change{{Field: "password", Before: "set", After: ""}}},
		{[]field{secret("$hash")}, []field{secret("$hash")}, nil},
	} {
		if got := differences(row.before, row.after); !slices.Equal(got, row.want) {
			t.Errorf("%v to %v: %q, want %q", row.before, row.after, got, row.want)
		}
	}
}

// Every field of a vhost, user, policy or permission is recorded when it changes.
func TestEveryFieldIsRecorded(t *testing.T) {
	names := map[string]bool{"Name": true, "VHost": true, "User": true, "Operator": true} // these say which one it is
	check := func(what any, recorded func() []Change) {
		t.Helper()
		v := reflect.ValueOf(what).Elem()
		for _, f := range reflect.VisibleFields(v.Type()) {
			if names[f.Name] || f.Anonymous || !f.IsExported() {
				continue
			}
			x := v.FieldByIndex(f.Index)
			old := reflect.New(x.Type()).Elem()
			old.Set(x)
			switch x.Kind() {
			case reflect.Bool:
				x.SetBool(!x.Bool())
			case reflect.String:
				x.SetString("other")
			case reflect.Int64:
				x.SetInt(77)
			case reflect.Slice:
				x.Set(reflect.MakeSlice(x.Type(), 1, 1))
				if x.Type().Elem().Kind() == reflect.String {
					x.Index(0).SetString("other")
				}
			default:
				t.Fatalf("%s is a %s", f.Name, x.Kind())
			}
			if len(recorded()) != 1 {
				t.Errorf("%T.%s: %v", what, f.Name, recorded())
			}
			x.Set(old)
		}
	}
	h, u, p, g, k := &catalog.VHost{}, &catalog.User{}, &catalog.Policy{}, &catalog.Permission{}, &catalog.TopicPermission{}
	check(h, func() []Change { return differences(vhostFields(&catalog.VHost{}), vhostFields(h)) })
	check(u, func() []Change { return differences(userFields(&catalog.User{}), userFields(u)) })
	check(p, func() []Change { return differences(policyFields(&catalog.Policy{}), policyFields(p)) })
	check(g, func() []Change { return differences(permissionFields(&catalog.Permission{}), permissionFields(g)) })
	check(k, func() []Change { return differences(topicFields(&catalog.TopicPermission{}), topicFields(k)) })
}

func TestBoundedChanges(t *testing.T) {
	var all []Change
	for range 100 {
		all = append(all, Change{Field: "f", After: strings.Repeat("v", 2*ValueBytes)})
	}
	got, size := boundedChanges(all), 0
	for _, c := range got {
		size += len(c.Field) + len(c.Before) + len(c.After)
	}
	if last := got[len(got)-1]; size > ChangesBytes+50 || last.Field != "left_out" || last.After != "97 fields" {
		t.Errorf("%d bytes, the last is %q", size, last)
	}
}

// A refused command on the broker's own parameters never records a value: tokens are such
// parameters.
func TestOwnParametersAreNotRecorded(t *testing.T) {
	for component, want := range map[string]bool{"access-token": false, "definitions": false, "access": false} {
		p := catalog.Parameter{Component: component, Name: "n", Value: "s3cret"}
		changes, recorded := changesOf(catalog.New().View(), &catalog.PutParameter{Parameter: p}, catalog.Reply{Created: true})
		if recorded != want || strings.Contains(changesText(changes), "s3cret") {
			t.Errorf("%s: %v, %v", component, recorded, changes)
		}
	}
}

// Every operation of either list is counted, and no other.
func TestAuditOperations(t *testing.T) {
	a := testAudit(io.Discard, nil)
	if len(a.counts) != len(administration())+len(use()) {
		t.Errorf("%d operations of %d and %d", len(a.counts), len(administration()), len(use()))
	}
	for op := range a.counts {
		for _, outcome := range []string{event.Done, event.Refused, event.Unknown} {
			a.count(op, outcome)
		}
	}
	if got := len(a.Counts()); got != 3*len(a.counts) {
		t.Errorf("%d figures", got)
	}
}

// BenchmarkAudited measures what the record of a declare costs besides the declare: some
// microseconds, with its line.
func BenchmarkAudited(b *testing.B) {
	x := testAudit(&bytes.Buffer{}, nil)
	ctx := user("app", false)
	act := Act{Operation: OpQueueDeclare, VHost: "/", Kind: "queue", Name: "orders", From: Origin{Protocol: "amqp", Address: "192.0.2.1:5", Client: "app"}}
	b.ReportAllocs()
	for b.Loop() {
		if err := x.Audited(ctx, act, changing); err != nil {
			b.Fatal(err)
		}
	}
}
