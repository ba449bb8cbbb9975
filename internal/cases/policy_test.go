package cases

import (
	"errors"
	"fmt"
	"testing"

	"github.com/quorate/quorate/client"
)

// policy sets a policy of this case for names that begin with those of the case.
func (k *kase) policy(s string, definition args, more ...func(*client.Policy)) string {
	k.Helper()
	p := client.Policy{Name: k.name(s), Pattern: "^" + k.name(""), Definition: definition}
	for _, m := range more {
		m(&p)
	}
	_, err := k.client.PutPolicy(k.ctx, p)
	k.must(err)
	k.Cleanup(func() { _, _ = k.client.DeletePolicy(k.ctx, client.PolicyRef{Name: p.Name, Operator: p.Operator}) })
	return p.Name
}

func priority(n int64) func(*client.Policy) { return func(p *client.Policy) { p.Priority = n } }

// applied polls until the policy of a queue is the one of that name, none if that is empty,
// and is in force.
func (k *kase) applied(queue, policy string) {
	k.Helper()
	k.eventually(fmt.Sprintf("policy %q applies", policy), func() error {
		q, err := k.client.GetQueue(k.ctx, client.QueueRef{Name: queue})
		if err == nil && (q.Policy != policy || q.Stats == nil || q.SettingsPending) {
			err = fmt.Errorf("policy %q applies, pending: %v", q.Policy, q.SettingsPending)
		}
		return err
	})
}

// PO-1, PO-2.
func TestT038(t *testing.T) {
	k := begin(t, "faulty policies are refused and not stored")
	for _, p := range []client.Policy{
		{Definition: args{}},
		{Definition: args{"unknown": 1}},
		{Definition: args{"x-max-length": 1}},
		{Definition: args{"max-length": "5"}},
		{Definition: args{"max-length": 1.5}},
		{Definition: args{"expires": 0}},
		{Definition: args{"overflow": "bogus"}},
		{Definition: args{"max-priority": 5}},
		{Pattern: "(", Definition: args{"max-length": 5}},
		{ApplyTo: "bogus", Definition: args{"max-length": 5}},
		{Definition: args{"delayed-retry-type": "all"}},
		{Definition: args{"delayed-retry-min": 100, "delayed-retry-max": 50}},
	} {
		p.Name = k.name("p")
		_, err := k.client.PutPolicy(k.ctx, p)
		k.class("policy", err, client.PreconditionFailed)
	}
	stored, err := client.Collect(k.client.Policies(k.ctx, ""))
	k.must(err)
	for _, p := range stored {
		if p.Name == k.name("p") {
			k.Errorf("stored: %v", p)
		}
	}
}

// PO-5.
func TestT039(t *testing.T) {
	k := begin(t, "operators' policies accept what bounds users, and nothing else")
	operator := func(key string, value any) error {
		p := client.Policy{Name: k.name("p"), Operator: true, Pattern: "^" + k.name(""), Definition: args{key: value}}
		_, err := k.client.PutPolicy(k.ctx, p)
		return err
	}
	k.class("dead-letter-exchange", operator("dead-letter-exchange", "x"), client.PreconditionFailed)
	k.class("consumer-timeout", operator("consumer-timeout", 5), client.PreconditionFailed)
	k.class("alternate-exchange", operator("alternate-exchange", "x"), client.PreconditionFailed)
	k.must(operator("max-length", 5))
	_, err := k.client.DeletePolicy(k.ctx, client.PolicyRef{Name: k.name("p"), Operator: true})
	k.must(err)
}

// PO-7.
func TestT040(t *testing.T) {
	k := begin(t, "a dead-letter exchange of the argument overrules that of the policy")
	d1, d2 := k.queue("d1", nil), k.queue("d2", nil)
	q := k.queue("q", dlx(d1))
	p := k.policy("p", args{"dead-letter-exchange": "", "dead-letter-routing-key": d2})
	k.applied(q, p)
	k.publish(q, "m")
	k.settle(k.get(q, false), reject)
	k.same("dead letter", k.bodies(d1, 1), []string{"m"})
	k.empty(d2)
}

// PO-7, TTL-1.
func TestT041(t *testing.T) {
	k := begin(t, "the lower of the TTLs of argument and policy counts")
	for _, c := range []struct {
		name             string
		argument, policy int
	}{{"policy-lower", 5000, 200}, {"argument-lower", 200, 5000}} {
		q := k.queue(c.name, args{"x-message-ttl": c.argument})
		k.policy(c.name, args{"message-ttl": c.policy}, func(p *client.Policy) { p.Pattern = "^" + q + "$" })
		k.applied(q, k.name(c.name))
		k.publish(q, "m")
		k.ready(q, 0)
	}
}

// PO-3.
func TestT044(t *testing.T) {
	k := begin(t, "the policy of the highest priority applies, and the next when it is gone")
	q := k.queue("q", nil)
	pa := k.policy("pa", args{"max-length": 5})
	pc := k.policy("pc", args{"max-length": 6}, priority(1))
	k.applied(q, pc)
	_, err := k.client.DeletePolicy(k.ctx, client.PolicyRef{Name: pc})
	k.must(err)
	k.applied(q, pa)
}

// PO-9, LEN-3.
func TestT046(t *testing.T) {
	k := begin(t, "a lower limit takes effect at once and dead-letters the oldest")
	d, q := k.queue("d", nil), k.queue("q", nil)
	k.publish(q, numbers(1, 5)...)
	k.policy("p", args{"max-length": 2, "dead-letter-exchange": "", "dead-letter-routing-key": d},
		func(p *client.Policy) { p.Pattern = "^" + q + "$" })
	k.same("dead letters", k.bodies(d, 3), numbers(1, 3))
	k.same("left", k.bodies(q, 2), numbers(4, 5))
}

// PO-9, LEN-4.
func TestT049(t *testing.T) {
	k := begin(t, "clearing a limit unblocks publishers")
	q := k.queue("q", nil)
	p := k.policy("p", args{"max-length": 1, "overflow": "reject-publish"})
	k.applied(q, p)
	k.eventually("the queue refuses", func() error {
		if _, err := k.try(q, "m"); err == nil {
			return errors.New("a message was accepted")
		}
		return nil
	})
	_, err := k.client.DeletePolicy(k.ctx, client.PolicyRef{Name: p})
	k.must(err)
	k.applied(q, "") // once nothing limits the queue, not one message is refused
	k.publish(q, "m")
}

// PO-3.
func TestT051(t *testing.T) {
	k := begin(t, "of equal priorities the first name counts")
	q := k.queue("q", nil)
	k.policy("b", args{"max-length": 5})
	a := k.policy("a", args{"max-length": 6})
	k.applied(q, a)
}
