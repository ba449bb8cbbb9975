// Package settletoken creates and reads settle tokens. A client gets one with a message that it takes, and can decide
// about the message with it on any node (AM-8). A token is sealed with a secret that all nodes of the cluster share,
// and is valid only for the user who got it. Tokens may be used concurrently; errors are those of package failure.
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

// Node is the part of *cluster.Cluster that this package needs; the method is documented there.
type Node interface {
	AwaitView(ctx context.Context, index uint64) error
}

// Config has the parts of Tokens.
type Config struct {
	Node        Node
	View        func() *catalog.View
	Now         func() time.Time // the time of the cluster
	Commands    *audit.Commands
	Logins      *identity.Logins
	Permissions *permission.Permissions
}

// Tokens creates and reads the settle tokens of a node. All methods may be called concurrently.
type Tokens struct{ cfg Config }

// New returns the Tokens of a node.
func New(c Config) *Tokens { return &Tokens{cfg: c} }

// The global parameter with the secret that seals settle tokens, the same on all nodes. It is created once, with the
// first token. If several nodes propose one, the catalog takes the first.
const (
	settleComponent = "settle-token"
	settleKeyName   = "1"
)

// Seal creates the tokens of one user. It never changes.
type Seal struct {
	key  []byte
	user string
	at   time.Time
}

// Text returns the token for a message that the user has taken.
func (s *Seal) Text(t gateway.ConsumerToken) string {
	return encodeToken(Token{ConsumerToken: t, user: s.user, atMs: s.at.UnixMilli()}, s.key)
}

// Seal returns the Seal for messages that the context's caller takes. Error: Unavailable if there is no secret yet and
// none can be created.
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

// key returns the cluster's secret, and creates it if necessary.
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
	if err := ts.cfg.Node.AwaitView(ctx, reply.Index); err != nil { // it existed, but this node's view was too old to have it
		return nil, failure.Translate(err, failure.Error{Kind: "settle token"})
	}
	if p, ok := ts.cfg.View().Parameter("", settleComponent, settleKeyName); ok {
		return []byte(p.Value), nil
	}
	return nil, serving.ErrStale(nil)
}

// Open decodes a token. It refuses a caller who may not read from the queue, or who is neither the user who got the
// token nor an administrator. Errors about the message start from about.
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
