// Package settletoken makes and reads settle tokens: what a client is given with a message that it took, to decide about
// it on any node (AM-8). A token is sealed with a secret that the cluster's nodes share, and holds for the user it was
// given to. Tokens may be used concurrently; errors are of package failure.
package settletoken

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/gateway"
)

// Node is what it takes of a node's part of the cluster; see *cluster.Cluster.
type Node interface {
	AwaitView(ctx context.Context, index uint64) error
}

// Config is what tokens are made with.
type Config struct {
	Node        Node
	View        func() *catalog.View
	Now         func() time.Time // of the cluster
	Commands    *audit.Commands
	Logins      *identity.Logins
	Permissions *permission.Permissions
}

// Tokens makes and reads the settle tokens of a node. All methods may be called concurrently.
type Tokens struct{ cfg Config }

// New returns those of a node.
func New(c Config) *Tokens { return &Tokens{cfg: c} }

// The global parameter with the secret that seals settle tokens, the same on all nodes. It is made
// once, when the first token is: of several nodes that make one the catalog takes the first.
const (
	settleComponent = "settle-token"
	settleKeyName   = "1"
)

// Seal makes the tokens of a user. It never changes.
type Seal struct {
	key  []byte
	user string
	at   time.Time
}

// Text returns the token for what the user has taken.
func (s *Seal) Text(t gateway.ConsumerToken) string {
	return encodeToken(Token{ConsumerToken: t, user: s.user, atMs: s.at.UnixMilli()}, s.key)
}

// Seal returns what makes tokens for what the context's caller takes. Error: Unavailable if there is no secret yet
// and none can be made.
func (ts *Tokens) Seal(ctx context.Context) (s Seal, err error) {
	if s.key, err = ts.key(ctx); err != nil {
		return s, err
	}
	who, err := ts.cfg.Logins.Who(ctx)
	if who != nil {
		s.user = who.User()
	}
	s.at = ts.cfg.Now()
	return s, err
}

// key returns the cluster's secret, which it makes if there is none.
func (ts *Tokens) key(ctx context.Context) ([]byte, error) {
	v := ts.cfg.View()
	if p, ok := v.Parameter("", settleComponent, settleKeyName); ok {
		return []byte(p.Value), nil
	}
	reply, err := ts.cfg.Commands.Propose(ctx, failure.Error{Kind: "settle token"}, &catalog.PutParameter{OnlyNew: true, Parameter: catalog.Parameter{
		Component: settleComponent, Name: settleKeyName, Value: rand.Text() + rand.Text(),
	}}, nil)
	if !administration.Existed(err) {
		return nil, err
	}
	if err := ts.cfg.Node.AwaitView(ctx, reply.Index); err != nil { // it was there, and this node's view too old to show it
		return nil, failure.Translate(err, failure.Error{Kind: "settle token"})
	}
	if p, ok := ts.cfg.View().Parameter("", settleComponent, settleKeyName); ok {
		return []byte(p.Value), nil
	}
	return nil, serving.ErrStale(nil)
}

// Open reads a token of what the caller holds, of a queue that it may read. An administrator may settle for others.
// about is what an error of settling by it is about.
func (ts *Tokens) Open(ctx context.Context, text string) (t Token, about failure.Error, err error) {
	about = failure.Error{Kind: "message", Arg: "settle_token"}
	fail := func(err error) (Token, failure.Error, error) { return Token{}, about, err }
	sealed, err := splitToken(text)
	if err != nil {
		about.Class, about.Reason = failure.PreconditionFailed, err.Error()
		return fail(&about)
	}
	key, err := ts.key(ctx)
	if err != nil {
		return fail(err)
	}
	t, err = sealed.open(key)
	if err != nil {
		about.Class, about.Reason = failure.PreconditionFailed, err.Error()
		return fail(&about)
	}
	who, err := ts.cfg.Logins.Who(ctx)
	if err != nil {
		return fail(err)
	}
	if who != nil && who.User() != t.user && !who.Is(identity.TagAdministrator) {
		about.Class, about.Reason = failure.AccessRefused, "was given to another user; settle as the one that took the message"
		return fail(&about)
	}
	q, ok := ts.cfg.View().QueueByUID(t.Queue)
	if !ok {
		about.Class, about.Kind, about.Name = failure.NotFound, "queue", t.Queue.String()
		about.Reason = "was deleted, and its messages with it"
		return fail(&about)
	}
	about.Kind, about.VHost, about.Name, about.Arg = "queue", q.VHost, q.Name, ""
	return t, about, ts.cfg.Permissions.Permit(ctx, permission.Queue(about.VHost, about.Name), permission.Read)
}
