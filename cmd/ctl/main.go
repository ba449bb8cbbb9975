// Command ctl, built as quoratectl, is the operator's command line: it publishes,
// consumes, declares and shows over the same API as any client.
//
// Exit codes: 0 done; 1 the cluster refused, or the command was given up; 2 the command line is
// wrong; 3 an operation ended early, and what it has done stays; 4 no node could be reached.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate"
	"github.com/quorate/quorate/chaos/command"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/manual"
)

// Exit codes.
const (
	exitRefused     = 1
	exitUsage       = 2
	exitPartDone    = 3
	exitUnreachable = 4
)

const (
	defaultAddress = "127.0.0.1:7070"
	addressesEnv   = "QUORATE_ADDRESSES"
	userEnv        = "QUORATE_USER"
	passwordEnv    = "QUORATE_PASSWORD"
	tokenEnv       = "QUORATE_TOKEN" //nolint:gosec // the name of a variable
)

// The forms of output.
const (
	outputTable = "table"
	outputJSON  = "json"
	outputYAML  = "yaml"
)

// usageError is a mistake in the command line.
type usageError struct{ error }

// unreachableError reports that no node answered.
type unreachableError struct{ error }

// Unwrap returns the cause.
func (e unreachableError) Unwrap() error { return e.error }

func main() {
	ctx := context.WithValue(context.Background(), ownProcess{}, true)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs one command line and returns the exit code, which distinguishes mistakes of the user, refusals,
// unreachable clusters and partial success apart (docs/quoratectl.md).
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if failure := (*command.Failure)(nil); errors.As(err, &failure) {
		if failure.Err != nil {
			printf(errs, "quoratectl: %v\n", err)
		}
		return failure.Code
	}
	printf(errs, "quoratectl: %v\n", err)
	if usage := (usageError{}); errors.As(err, &usage) {
		printf(errs, "try: quoratectl help\n")
		return exitUsage
	}
	if part := (partDoneError{}); errors.As(err, &part) {
		return exitPartDone
	}
	if away := (unreachableError{}); errors.As(err, &away) {
		return exitUnreachable
	}
	return exitRefused
}

// session is the state that every command needs.
type session struct {
	addresses []string
	fixed     bool
	output    string
	vhost     string
	// vhostGiven reports that the command line has --vhost. A context's vhost is for names, not for how much of a cluster a
	// backup or a document of definitions has, or members move in.
	vhostGiven bool
	timeout    time.Duration
	// timeoutGiven reports that the command line has --timeout, which then bounds watching too.
	timeoutGiven bool
	tls          bool
	tlsFiles     client.TLS
	user         string
	password     string
	token        string
	context      string
	errs         io.Writer // where warnings go; nil: nowhere
	// patience is how long the command waits for an answer before it reports to the user that it still
	// tries.
	patience time.Duration
	reported time.Time // when a long command last printed its progress
}

const defaultPatience = time.Second

func newRoot() *cobra.Command {
	_, root := newSession()
	return root
}

// newSession makes the root command and the session that all commands share. Flags are read before
// a command runs, so commands find them in the session.
func newSession() (*session, *cobra.Command) {
	s := &session{patience: defaultPatience}
	root := &cobra.Command{
		Use: "quoratectl", Short: "Publish to, consume from and operate a Quorate cluster",
		Version: quorate.About("quoratectl"), SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.HasSubCommands() {
				return nil // it shows its help
			}
			s.errs = cmd.ErrOrStderr()
			s.timeoutGiven, s.vhostGiven = cmd.Flags().Changed("timeout"), cmd.Flags().Changed("vhost")
			warnOfSecrets(cmd)
			return s.complete()
		},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	f := root.PersistentFlags()
	f.StringSliceVarP(&s.addresses, "address", "a", nil, "client address of a node, host:port; repeatable ("+addressesEnv+"; default "+defaultAddress+")")
	f.BoolVar(&s.fixed, "fixed-addresses", false, "use these addresses only, instead of learning the others from the cluster")
	f.StringVarP(&s.output, "output", "o", outputTable, "table, json or yaml")
	f.StringVar(&s.vhost, "vhost", "", "vhost; default /")
	f.DurationVar(&s.timeout, "timeout", 10*time.Second, "give up after this time; consuming is not bounded, and watching only if the flag is given")
	f.BoolVar(&s.tls, "tls", false, "use TLS; the other --tls flags imply it")
	f.StringVar(&s.tlsFiles.CA, "tls-ca", "", "PEM file with the authorities of the nodes' certificates; default: the system's")
	f.StringVar(&s.tlsFiles.Cert, "tls-cert", "", "PEM file with a certificate, for nodes that ask for one")
	f.StringVar(&s.tlsFiles.Key, "tls-key", "", "PEM file with its key")
	f.StringVar(&s.tlsFiles.ServerName, "tls-server-name", "", "name in the nodes' certificates; default: the host of each address")
	f.StringVar(&s.user, "user", "", "user to log in as ("+userEnv+"; default guest)")
	f.StringVar(&s.password, "password", "", "password of the user; other users of this host can see it in the list of processes: better use "+passwordEnv+" (default guest)")
	f.StringVar(&s.token, "token", "", "token instead of user and password; other users of this host can see it in the list of processes: better use "+tokenEnv)
	f.StringVar(&s.context, "context", "", "name of a context, see quoratectl context ("+contextEnv+"; default: the current one)")
	root.AddCommand(newPublish(s), newConsume(s), newGet(s), newQueue(s), newExchange(s), newBinding(s), newPolicy(s), newCluster(s),
		newOperations(s), newNodes(s), newTop(s), newVhost(s), newUser(s), newPermission(s), newTopicPermission(s), newConnection(s), newConsumer(s), newWhoAmI(s), newToken(s), newDefinitions(s), newMigrate(s), newExplain(s), newEvents(s), newAudit(s),
		newChaos(s), newContext(s), newCheck(s), newDoctor(s), newBackup(s), newUpgrade(s), newLog(s), manual.Command())
	s.addCompletion(root)
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	refuseUnknown(root)
	return s, root
}

// warnOfSecrets warns of secrets on the command line, which all users of the host can see.
func warnOfSecrets(cmd *cobra.Command) {
	for _, f := range [...]struct{ name, instead string }{
		{"password", passwordEnv + ", or a context with --password-file"},
		{"token", tokenEnv + ", or a context with --token-file"},
		{"new-password", "--password-stdin"},
	} {
		if cmd.Flags().Changed(f.name) {
			warnOfSecret(cmd, "--"+f.name, f.instead)
		}
	}
}

func warnOfSecret(cmd *cobra.Command, where, instead string) {
	printf(cmd.ErrOrStderr(), "warning: every user of this host can see %s in the list of processes: use %s\n", where, instead)
}

// complete fills in what the command line left out.
func (s *session) complete() error {
	if err := s.useContext(); err != nil {
		return err
	}
	if len(s.addresses) == 0 {
		s.addresses = strings.FieldsFunc(os.Getenv(addressesEnv), func(r rune) bool { return r == ',' || r == ' ' })
	}
	if err := s.completeLogin(); err != nil {
		return err
	}
	if len(s.addresses) == 0 {
		s.addresses = []string{defaultAddress}
	}
	if err := s.checkOutput(); err != nil {
		return err
	}
	if s.timeout <= 0 {
		return usageError{fmt.Errorf("--timeout is %v: must be more than 0", s.timeout)}
	}
	return nil
}

// completeLogin takes the login from the environment where the command line has none.
func (s *session) completeLogin() error {
	if s.token == "" && s.user == "" && s.password == "" {
		s.token = os.Getenv(tokenEnv)
	}
	if s.token != "" {
		return nil
	}
	if s.user == "" {
		s.user = os.Getenv(userEnv)
	}
	if s.password == "" {
		s.password = os.Getenv(passwordEnv)
	}
	if s.user == "" && s.password != "" {
		return usageError{errors.New("there is a password, from --password or " + passwordEnv + ", and no user: give --user or " + userEnv + " as well")}
	}
	return nil
}

// checkOutput refuses unknown values of --output before anything is done.
func (s *session) checkOutput() error {
	if s.output != outputTable && s.output != outputJSON && s.output != outputYAML {
		return usageError{fmt.Errorf("--output is %q: use table, json or yaml", s.output)}
	}
	return nil
}

// with runs f with a client, bounded by --timeout.
func (s *session) with(cmd *cobra.Command, f func(context.Context, *client.Client) error) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), s.timeout)
	defer cancel()
	c, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return f(ctx, c)
}

// bound limits commands that run on their own: --timeout ends them only if it is given.
func (s *session) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.timeoutGiven {
		return context.WithTimeout(ctx, s.timeout)
	}
	return context.WithCancel(ctx)
}

// begin is open for a command that may run for long: only a --timeout that is given bounds the context. The caller
// calls end.
func (s *session) begin(cmd *cobra.Command) (ctx context.Context, c *client.Client, end func(), err error) {
	if c, err = s.open(cmd); err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := s.bound(cmd.Context())
	return ctx, c, func() { cancel(); c.Close() }, nil
}

// open returns a client once a node has answered within --timeout.
func (s *session) open(cmd *cobra.Command) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), s.timeout)
	defer cancel()
	return s.dial(ctx)
}

// dial connects and waits for a first answer; after patience without one it reports to the user that it
// still tries.
func (s *session) dial(ctx context.Context) (*client.Client, error) {
	c, _, err := s.dialNode(ctx)
	return c, err
}

// dialNode is dial with the answer, which has the name of the node that gave it.
func (s *session) dialNode(ctx context.Context) (c *client.Client, at client.ClusterStatus, err error) {
	cfg := s.clientConfig()
	if err := cfg.Validate(); err != nil {
		return nil, at, usageError{err}
	}
	if c, err = client.New(cfg); err != nil {
		return nil, at, s.undialed(ctx, err)
	}
	answered := s.reportWaiting(ctx)
	at, err = c.ClusterStatus(ctx)
	answered()
	if err != nil {
		c.Close()
		return nil, at, s.undialed(ctx, err)
	}
	return c, at, nil
}

// clientConfig is what the flags say about the cluster and the login.
func (s *session) clientConfig() client.Config {
	// only the server's limit of message sizes applies
	cfg := client.Config{
		Name:      "quoratectl",
		Addresses: s.addresses, FixedAddresses: s.fixed, MaxMessageBytes: -1,
		Username: s.user, Password: s.password, Token: s.token, OnWarning: s.warn,
	}
	if s.usesTLS() {
		cfg.TLS = &s.tlsFiles
	}
	return cfg
}

func (s *session) usesTLS() bool { return s.tls || s.tlsFiles != (client.TLS{}) }

// warn prints a warning of a node.
func (s *session) warn(text string) {
	if s.errs != nil {
		printf(s.errs, "warning: %s\n", text)
	}
}

// reportWaiting prints for the user what the command waits for, while no node answers, until the returned
// function is called.
func (s *session) reportWaiting(ctx context.Context) (answered func()) {
	if s.errs == nil {
		return func() {}
	}
	done := make(chan struct{})
	var reporting sync.WaitGroup
	reporting.Go(func() {
		select {
		case <-time.After(s.patience):
		case <-done:
			return
		}
		left := ""
		if until, bounded := ctx.Deadline(); bounded {
			left = fmt.Sprintf(" for %v more (--timeout)", max(0, time.Until(until)).Round(time.Second))
		}
		printf(s.errs, "no node answers at %s yet; trying%s\n", strings.Join(s.addresses, ", "), left)
	})
	return func() {
		close(done)
		reporting.Wait()
	}
}

// noPreface is gRPC's error for a peer that closes the connection at the first bytes, as a peer
// that expects TLS does.
const noPreface = "error reading server preface"

// undialed words why there is no client. A node that refuses a call has answered.
func (s *session) undialed(ctx context.Context, err error) error {
	at := strings.Join(s.addresses, ", ")
	var answer *client.Error
	switch {
	case ctx.Err() != nil && !s.usesTLS() && strings.Contains(err.Error(), noPreface):
		return unreachableError{fmt.Errorf("the server at %s does not speak gRPC without TLS: give --tls or --tls-ca if the nodes use TLS, "+
			"and check that the port is that of listen.client: %w", at, err)}
	case ctx.Err() != nil:
		return unreachableError{fmt.Errorf("no node answers at %s: %w", at, err)}
	case !errors.As(err, &answer):
		return err
	case answer.Code != codes.Unauthenticated:
		return fmt.Errorf("refused at %s: %w", at, err)
	case s.token != "":
		return fmt.Errorf("the login with a token was refused at %s: %w", at, err)
	case s.user == "":
		return fmt.Errorf("the login of user %q was refused at %s; log in as another user with --user and %s: %w", client.DefaultUser, at, passwordEnv, err)
	default:
		return fmt.Errorf("the login of user %q was refused at %s: %w", s.user, at, err)
	}
}

// exactArgs is cobra.ExactArgs with a usage error that names the missing arguments.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return usageError{fmt.Errorf("%s takes %s, got %d arguments", cmd.CommandPath(), strings.Join(names, " "), len(args))}
		}
		return nil
	}
}

// optionalArg accepts one argument or none.
func optionalArg(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usageError{fmt.Errorf("%s takes at most one %s, got %d arguments", cmd.CommandPath(), name, len(args))}
		}
		return nil
	}
}

// parseArguments reads name=value pairs. Values that look like numbers or booleans become such.
func parseArguments(pairs []string) (client.Table, error) {
	t := client.Table{}
	for _, p := range pairs {
		name, value, ok := strings.Cut(p, "=")
		if !ok || name == "" {
			return nil, usageError{fmt.Errorf("argument %q is not name=value", p)}
		}
		t[name] = parseValue(value)
	}
	return t, nil
}
