package client

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Config says how to reach a cluster. Zero values are the defaults.
type Config struct {
	// Addresses are nodes as host:port; one is enough, two survive the loss of one while
	// the client starts. One that does not answer costs 200 ms: then the next one is asked as well.
	Addresses []string
	// FixedAddresses keeps to Addresses instead of learning the others from the cluster,
	// for clients that reach nodes by other names than nodes give themselves.
	FixedAddresses bool
	// TLS protects the connections by files; nil: Credentials count.
	TLS *TLS
	// Credentials protect the connection; nil, and no TLS, is plain text.
	Credentials credentials.TransportCredentials
	// Username and Password log in; both empty: guest and guest, the user of a fresh
	// cluster, which only the nodes' own hosts may use.
	Username, Password string
	// Token logs in instead; see MintToken.
	Token string
	// Name is what operators see of the client in lists of connections; at most 128 printable
	// ASCII characters.
	Name string
	// CallTimeout bounds a call whose context has no deadline; 0: 30 s, negative: none.
	CallTimeout time.Duration
	// ProbeInterval is how often a node that carries streams is asked whether it lives; one that
	// owes a publisher answers is asked every 100 ms. ProbeTimeout is how long it may take to
	// answer before its streams move to another node; after half of it, and when the node says
	// that it is cut off from the others or that its disk hangs, they move if another node
	// answers that it serves. 0: 1 s each.
	ProbeInterval time.Duration
	ProbeTimeout  time.Duration
	// LoginGrace is for how long a publisher or consumer whose login was good before goes on when
	// nodes refuse it; 0: 15 s, negative: it ends at once. A first login that is refused is
	// wrong for good.
	LoginGrace time.Duration
	// MaxMessageBytes bounds a message's body; 0: 16 MiB, negative: only the server's
	// limit (MSG-2).
	MaxMessageBytes int
	// DialOptions are handed to gRPC as they are.
	DialOptions []grpc.DialOption
	// OnWarning is told what nodes say of a declaration or binding that they have taken, such as an
	// argument that is unknown and has no effect; it may be called concurrently. nil: Logger is.
	OnWarning func(text string)
	// Logger hears about lost and found nodes, and of connections that an operator closed;
	// nil is silent.
	Logger *slog.Logger
}

// Limits and defaults of a client.
const (
	defaultCallTimeout     = 30 * time.Second
	defaultProbe           = time.Second
	defaultLoginGrace      = 15 * time.Second
	defaultMaxMessageBytes = 16 << 20
	// maxGRPCBytes bounds one gRPC message either way: the server's largest message
	// limit and what is around it.
	maxGRPCBytes  = 520 << 20
	maxClientName = 128 // what the broker shows
)

// Validate returns all faults at once.
func (c Config) Validate() error {
	var errs []error
	if len(c.Addresses) == 0 {
		errs = append(errs, errors.New("client: Addresses is empty: give at least one host:port, for example 127.0.0.1:7070"))
	}
	for _, a := range c.Addresses {
		if err := validAddress(a); err != nil {
			errs = append(errs, err)
		}
	}
	if c.ProbeInterval < 0 || c.ProbeTimeout < 0 {
		errs = append(errs, fmt.Errorf("client: ProbeInterval %v and ProbeTimeout %v must not be negative", c.ProbeInterval, c.ProbeTimeout))
	}
	if c.Token != "" && (c.Username != "" || c.Password != "") {
		errs = append(errs, errors.New("client: Token and Username or Password are set: set one of them"))
	}
	if c.Username == "" && c.Password != "" {
		errs = append(errs, errors.New("client: Password is set and Username is empty: set both or neither"))
	}
	if c.Token == "" && strings.Contains(c.Username, ":") {
		errs = append(errs, fmt.Errorf("client: Username %q contains a colon, which ends it", c.Username))
	}
	if len(c.Name) > maxClientName || strings.ContainsFunc(c.Name, func(r rune) bool { return r < ' ' || r > '~' }) {
		errs = append(errs, fmt.Errorf("client: Name %q: want at most %d printable ASCII characters", c.Name, maxClientName))
	}
	if c.TLS != nil {
		errs = append(errs, c.TLS.validate())
		if c.Credentials != nil {
			errs = append(errs, errors.New("client: TLS and Credentials are both set: set one of them"))
		}
	}
	return errors.Join(errs...)
}

// validAddress demands host and port. gRPC would accept more and fail at the first call only.
func validAddress(a string) error {
	host, port, err := net.SplitHostPort(a)
	if err != nil || host == "" || port == "" {
		return fmt.Errorf("client: address %q is not host:port, for example 127.0.0.1:7070", a)
	}
	return nil
}

// withDefaults fills in what is zero. Negative values stay: they switch off.
func (c Config) withDefaults() Config {
	if c.CallTimeout == 0 {
		c.CallTimeout = defaultCallTimeout
	}
	if c.ProbeInterval == 0 {
		c.ProbeInterval = defaultProbe
	}
	if c.ProbeTimeout == 0 {
		c.ProbeTimeout = defaultProbe
	}
	if c.LoginGrace == 0 {
		c.LoginGrace = defaultLoginGrace
	}
	if c.MaxMessageBytes == 0 {
		c.MaxMessageBytes = defaultMaxMessageBytes
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.OnWarning == nil {
		log := c.Logger
		c.OnWarning = func(text string) { log.Warn("a node warns", "warning", text) }
	}
	return c
}
