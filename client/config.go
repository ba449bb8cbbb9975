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

// Config describes how to reach a cluster. Zero values are the defaults.
type Config struct {
	// Addresses are nodes as host:port. One is enough; with two the client can start while one of them
	// is down. A node that does not answer costs 200 ms: then the next one is asked as well.
	Addresses []string
	// FixedAddresses restricts the client to Addresses. By default it learns further addresses from
	// the cluster; clients that reach the nodes under other names than the nodes know themselves
	// cannot use those.
	FixedAddresses bool
	// TLS protects the connections with certificate files; nil: see Credentials.
	TLS *TLS
	// Credentials protect the connections; nil without TLS means plain text.
	Credentials credentials.TransportCredentials
	// Username and Password log in. Both empty means guest and guest, the user of a fresh cluster,
	// which may log in only from the nodes' own hosts.
	Username, Password string
	// Token is used to log in instead; see MintToken.
	Token string
	// Name identifies the client to operators in lists of connections; at most 128 printable ASCII
	// characters.
	Name string
	// CallTimeout limits a call whose context has no deadline; 0: 30 s, negative: none.
	CallTimeout time.Duration
	// ProbeInterval is how often the client probes a node that carries streams; a node that has not answered a
	// publisher yet is probed every 100 ms. ProbeTimeout is how long the node may take to answer
	// before its streams move to another node. After half of it, or when the node reports that it is
	// cut off from the others or that its disk hangs, they move if another node reports that it can
	// serve. 0: 1 s each.
	ProbeInterval time.Duration
	ProbeTimeout  time.Duration
	// LoginGrace is how long a publisher or consumer whose login was accepted before keeps trying when
	// nodes refuse it; 0: 15 s, negative: it ends at once. If the first login is refused, it ends at
	// once in any case.
	LoginGrace time.Duration
	// MaxMessageBytes limits a message's body; 0: 16 MiB, negative: only the server's limit
	// (MSG-2).
	MaxMessageBytes int
	// DialOptions are passed to gRPC unchanged.
	DialOptions []grpc.DialOption
	// OnWarning receives nodes' warnings about declarations and bindings that they accepted, such as
	// an unknown argument without effect. It may be called concurrently. nil: Logger receives them.
	OnWarning func(text string)
	// Logger receives messages about lost and recovered nodes, and about connections that an operator
	// closed; nil is silent.
	Logger *slog.Logger
}

// Limits and defaults of a client.
const (
	defaultCallTimeout     = 30 * time.Second
	defaultProbe           = time.Second
	defaultLoginGrace      = 15 * time.Second
	defaultMaxMessageBytes = 16 << 20
	// maxGRPCBytes bounds one gRPC message in either direction: the server's largest message limit and
	// the envelope.
	maxGRPCBytes  = 520 << 20
	maxClientName = 128 // the length that the broker shows
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
