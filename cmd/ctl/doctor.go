package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/checks"
)

const (
	// nearShare is the share of a limit from which its use is a problem.
	nearShare = 0.9
	// maxScrapeBytes limits what is kept of one node's metrics.
	maxScrapeBytes = 64 << 20
	// bundleMode is the mode of a bundle: it names users and addresses.
	bundleMode = 0o600
)

// newDoctor makes `doctor`. The exit code is 1 if a problem was found.
func newDoctor(s *session) *cobra.Command {
	var f checkFlags
	out := ""
	var metrics []string
	cmd := &cobra.Command{
		Use: "doctor", Short: "Look for all kinds of problems, and collect what helps to find their cause", Args: exactArgs(),
		Long: "Look for all kinds of problems: everything of quoratectl check, queues that cannot dead-letter, slow disks, limits\n" +
			"that are nearly reached. It takes some seconds. With --out, write what was looked at to a .tar.gz file, for whoever is\n" +
			"to help: nodes and the newest lines of their logs, queues, operations, connections, limits, policies, definitions and,\n" +
			"of the given URLs, metrics. Password hashes, logins in URLs and the values of parameters, such as those of shovels,\n" +
			"are left out; names of users and queues, addresses and arguments are in it, messages are not.",
		Example: "  quoratectl doctor --out bundle.tar.gz --metrics http://node-1:15692/metrics",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var files map[string][]byte
			err := s.check(cmd, nil, f, func(ctx context.Context, l *look) ([]checks.Problem, error) {
				d := &diagnosis{look: l, session: s, files: map[string][]byte{}}
				now := d.begin(ctx)
				found := append(d.examine(ctx), d.figures(<-now)...)
				if out != "" {
					found = append(found, d.logs(cmd)...)
				}
				found = append(found, d.scrape(ctx, metrics)...)
				d.keep("problems", plainAll(found))
				files = d.files
				return found, nil
			})
			if out != "" && files != nil {
				err = errors.Join(err, writeBundle(out, files))
			}
			return err
		},
	}
	f.addWithin(cmd)
	cmd.Flags().StringVar(&out, "out", "", "write a bundle to this file, which must not exist")
	cmd.Flags().StringArrayVar(&metrics, "metrics", nil, "URL of a node's metrics for the bundle; repeatable")
	return cmd
}

// diagnosis examines a cluster, and keeps what it has seen.
type diagnosis struct {
	*look

	session *session
	files   map[string][]byte // of the bundle, by name
}

// keep adds a file to the bundle.
func (d *diagnosis) keep(name string, v any) {
	var b bytes.Buffer
	if err := (&session{output: outputJSON}).encode(&b, v); err != nil {
		fmt.Fprintf(&b, "%v\n", err)
	}
	d.files[name+".json"] = b.Bytes()
}

// missing reports what could not be examined, which is a problem too.
func missing(what string, err error) checks.Problem {
	return checks.Problem{Check: "collect", Object: what, Problem: "cannot be looked at: " + err.Error(), Remedy: "see that the node runs and that the user has the tag administrator"}
}

// examine examines everything. What cannot be examined hides nothing else.
func (d *diagnosis) examine(ctx context.Context) (found []checks.Problem) {
	d.keep("version", map[string]any{"quoratectl": quorate.About("quoratectl"), "at": time.Now().UTC().Format(time.RFC3339)})
	d.keep("cluster", plain(d.Status))
	found = slices.Concat(d.Ready(), d.Rebuilding(), d.Alarms(), d.Versions())
	if d.session.usesTLS() {
		found = append(found, d.certificates(ctx)...)
	}
	queues, err := client.Collect(d.Client.Queues(ctx, client.ListQueuesRequest{WithStats: true}))
	if err != nil {
		found = append(found, missing("queues", err))
	}
	d.keep("queues", plainAll(queues))
	for _, q := range queues {
		if p, is := checks.Critical(q, ""); is && len(q.Members) > 1 {
			found = append(found, p)
		}
		found = append(found, ofQueue(&q)...)
	}
	return append(found, d.others(ctx)...)
}

// ofQueue finds problems that a queue's figures show.
func ofQueue(q *client.QueueInfo) (found []checks.Problem) {
	of := fmt.Sprintf("queue %q in vhost %q", q.Name, q.VHost)
	f := q.Figures()
	if f.LastDeadLetterError != "" {
		found = append(found, checks.Problem{
			Check: "dead-letters", Object: of, Problem: fmt.Sprintf("%d dead letters wait: %s", f.MessagesDLX, f.LastDeadLetterError),
			Remedy: fmt.Sprintf("see quoratectl explain dead-letter %s", q.Name),
		})
	}
	if most, ok := q.EffectiveArguments["x-max-length"].(int64); ok && most > 0 && float64(f.MessagesReady) >= nearShare*float64(most) {
		found = append(found, checks.Problem{
			Check: "limits", Object: of, Problem: fmt.Sprintf("%d messages are ready, and x-max-length is %d", f.MessagesReady, most),
			Remedy: "add consumers, or raise the limit: above it the queue drops or refuses messages",
		})
	}
	return found
}

// others keeps what is no part of queues, and looks at limits.
func (d *diagnosis) others(ctx context.Context) (found []checks.Problem) {
	c := d.Client
	note := func(what string, err error) {
		if err != nil {
			found = append(found, missing(what, err))
		}
	}
	operations, err := client.Collect(c.Operations(ctx, client.ListOperationsRequest{}))
	note("operations", err)
	d.keep("operations", plainAll(operations))
	connections, err := client.Collect(c.Connections(ctx, client.ListConnectionsRequest{}))
	note("connections", err)
	d.keep("connections", plainAll(connections))
	consumers, err := client.Collect(c.Consumers(ctx, client.ListConsumersRequest{}))
	note("consumers", err)
	d.keep("consumers", plainAll(consumers))
	document, err := c.ExportDefinitions(ctx, "")
	note("definitions", err)
	if err == nil {
		note("definitions", d.keepDefinitions(document))
	}
	limits := map[string]any{}
	look := func(of string, listing iter.Seq2[client.Limit, error]) {
		all, err := client.Collect(listing)
		note("limits of "+of, err)
		limits[of] = plainAll(all)
		found = append(found, near(of, all)...)
	}
	vhosts, err := client.Collect(c.VHosts(ctx))
	note("vhosts", err)
	for _, v := range vhosts {
		look("vhost "+v.Name, c.LimitsOfVHost(ctx, v.Name))
	}
	users, err := client.Collect(c.Users(ctx))
	note("users", err)
	for _, u := range users {
		look("user "+u.Name, c.LimitsOfUser(ctx, u.Name))
	}
	d.keep("limits", limits)
	return found
}

// near finds limits that are nearly reached.
func near(of string, limits []client.Limit) (found []checks.Problem) {
	for _, l := range limits {
		if l.Limit == nil || l.Used == nil || *l.Limit <= 0 || *l.Used < nearShare*float64(*l.Limit) {
			continue
		}
		found = append(found, checks.Problem{
			Check: "limits", Object: of, Problem: fmt.Sprintf("%s is %d, and %.0f are used", l.Name, *l.Limit, *l.Used),
			Remedy: "raise the limit, or find out who uses it: quoratectl connection list, queue list",
		})
	}
	return found
}

// keepDefinitions keeps the document without the hashes of passwords, and without the values of parameters that mean
// nothing to the broker: those of shovels and federation have passwords.
func (d *diagnosis) keepDefinitions(document []byte) error {
	var all map[string]any
	if err := json.Unmarshal(document, &all); err != nil {
		return err
	}
	each := func(list string, do func(map[string]any)) {
		objects, _ := all[list].([]any)
		for _, o := range objects {
			if object, ok := o.(map[string]any); ok {
				do(object)
			}
		}
	}
	each("users", func(u map[string]any) { delete(u, "password_hash") })
	each("global_parameters", func(p map[string]any) { delete(p, "value") })
	each("parameters", func(p map[string]any) {
		if c := p["component"]; c != "operator_policy" && c != "vhost-limits" {
			delete(p, "value")
		}
	})
	d.keep("definitions", all)
	return nil
}

// login is the part of a URL that has a user's name and password, up to the @.
var login = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s"'<>]*@`)

// withoutLogins takes the logins out of all URLs: arguments, operations and errors may have some.
func withoutLogins(text []byte) []byte { return login.ReplaceAll(text, []byte("${1}…@")) }

// scrape keeps the metrics of nodes, and looks at limits that only they show.
func (d *diagnosis) scrape(ctx context.Context, urls []string) (found []checks.Problem) {
	for i, url := range urls {
		b, err := fetched(ctx, url)
		if err != nil {
			b = fmt.Appendf(nil, "# %v\n", err)
		}
		d.files[fmt.Sprintf("metrics-%d.txt", i+1)] = append(fmt.Appendf(nil, "# %s\n", url), b...)
		found = append(found, shortOf(string(withoutLogins([]byte(url))), string(b))...)
	}
	return found
}

// fetched returns what a URL shows.
func fetched(ctx context.Context, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(answer.Body, maxScrapeBytes))
	if err = errors.Join(err, answer.Body.Close()); err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return b, err
}

// writeBundle writes the files, without logins, in one directory of a compressed tar file.
func writeBundle(name string, files map[string][]byte) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, bundleMode)
	if err != nil {
		return err
	}
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	dir := strings.TrimSuffix(strings.TrimSuffix(path.Base(name), ".gz"), ".tar")
	for _, n := range slices.Sorted(maps.Keys(files)) {
		content := withoutLogins(files[n])
		h := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(dir, n), Size: int64(len(content)), Mode: bundleMode, ModTime: time.Now()}
		if err = w.WriteHeader(h); err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			break
		}
	}
	return errors.Join(err, w.Close(), z.Close(), f.Close())
}
