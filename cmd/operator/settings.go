package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/quorate/quorate"
)

// settings are the operator's flags.
type settings struct {
	namespace string     // "": all
	metrics   string     // host:port, "0": none
	health    string     // host:port, "0": none
	elect     bool       // one of several operators works
	electIn   string     // namespace of the election; "": that of the pod
	level     slog.Level // of the log
	resync    time.Duration
	webhook   string // directory with tls.crt and tls.key; "": no webhook
}

// parse reads the command line. done reports that all is done: the version was asked for.
func parse(args []string, out io.Writer) (s settings, done bool, err error) {
	flags := flag.NewFlagSet("operator", flag.ContinueOnError)
	flags.SetOutput(os.Stderr)
	flags.StringVar(&s.namespace, "namespace", "", "look after this namespace alone; then a Role there is enough. Empty: all")
	flags.StringVar(&s.metrics, "metrics-address", ":8080", "host:port of /metrics; 0: none")
	flags.StringVar(&s.health, "health-address", ":8081", "host:port of /healthz and /readyz; 0: none")
	flags.BoolVar(&s.elect, "leader-elect", true, "of several operators one works")
	flags.StringVar(&s.electIn, "leader-elect-namespace", "", "namespace of the election's object; empty: that of the pod")
	flags.TextVar(&s.level, "log-level", slog.LevelInfo, "debug, info, warn or error")
	flags.DurationVar(&s.resync, "resync", 5*time.Minute, "how often objects are compared with what the brokers have")
	flags.StringVar(&s.webhook, "webhook-certificates", "", "directory with tls.crt and tls.key for the webhook on port 9443. Empty: no webhook")
	version := flags.Bool("version", false, "print the version")
	if err := flags.Parse(args); err != nil {
		return s, false, err
	}
	if flags.NArg() > 0 {
		return s, false, fmt.Errorf("argument %q is not known: all settings are flags, see -help", flags.Arg(0))
	}
	if *version {
		_, err = fmt.Fprintln(out, quorate.About("quorate-operator"))
	}
	return s, *version, err
}
