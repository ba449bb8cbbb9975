package online

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/backup/archive"
	"github.com/quorate/quorate/client"
)

// Restore is what of a backup to restore, and where.
type Restore struct {
	Client *client.Client
	From   *archive.Reader
	// Run identifies the restore: a repeat with the same run stores only what is missing.
	Run string
	// Queues chooses queues by name; none: all. VHost chooses a vhost; "": all.
	Queues []string
	VHost  string
	// As is the name that a single chosen queue gets; "": its own. Into is the vhost that takes the queues; "": theirs.
	As, Into string
	// NoDefinitions restores messages into queues that exist.
	NoDefinitions bool
	DryRun        bool // check all, change nothing
	// Imported is called with the definitions' outcome, Seen after each queue, and Progress, unless nil, about
	// once a second.
	Imported func(client.ImportSummary)
	Seen     func(RestoredQueue)
	Progress func(Progress)
	// Patience is how long one queue is tried without anything being stored; 0: two minutes. Then the restore
	// continues with the next one.
	Patience time.Duration

	made map[string]client.ImportedObject // the queues of the definitions with their outcomes, by describe
}

// RestoredQueue is the outcome for one queue.
type RestoredQueue struct {
	VHost    string `api:"vhost"` // where it is now
	Queue    string `api:"queue"`
	Messages uint64 `api:"messages"` // of the copy
	Stored   uint64 `api:"stored"`
	Refused  uint64 `api:"refused"` // by limits of the queue
	Problem  string `api:"problem"` // why the rest of the copy is not stored; empty: nothing is wrong
}

// ErrDefinitions means that some objects could not be created, so that nothing was restored.
var ErrDefinitions = errors.New("definitions of the backup are not in place")

// Execute restores definitions, then the messages of one queue after another (BK-3). A queue that does not exist and that
// the definitions do not make, and one without a leader, have a Problem, and the others are restored. If that is so of all
// that have messages, Execute fails.
func (r *Restore) Execute(ctx context.Context) error {
	chosen, err := r.choose()
	if err != nil {
		return err
	}
	if !r.NoDefinitions {
		if err := r.define(ctx, chosen); err != nil {
			return err
		}
	}
	p := Progress{AllQueues: len(chosen)}
	for _, q := range chosen {
		p.AllMessages += q.Messages
	}
	done, failed := 0, error(nil)
	for _, q := range chosen {
		problem, err := r.queue(ctx, q, p)
		switch {
		case err != nil:
			return err
		case problem != nil:
			failed = problem
		case q.Messages > 0:
			done++
		}
		p.Queues++
		p.Messages += q.Messages
	}
	if done == 0 {
		return failed
	}
	return nil
}

// choose returns the copies that are restored.
func (r *Restore) choose() ([]*archive.Queue, error) {
	var out []*archive.Queue
	for i := range r.From.Manifest.Queues {
		q := &r.From.Manifest.Queues[i]
		if (r.VHost == "" || q.VHost == r.VHost) && (len(r.Queues) == 0 || slices.Contains(r.Queues, q.Name)) {
			out = append(out, q)
		}
	}
	for _, n := range r.Queues {
		if !slices.ContainsFunc(out, func(q *archive.Queue) bool { return q.Name == n }) {
			return nil, fmt.Errorf("the backup has no queue %q of the vhost that is asked for", n)
		}
	}
	if r.As != "" && len(out) != 1 {
		return nil, fmt.Errorf("%d queues are chosen: only a single one can get the name %q", len(out), r.As)
	}
	return out, nil
}

// target returns where a copy goes.
func (r *Restore) target(q *archive.Queue) (vhost, queue string) {
	vhost, queue = q.VHost, q.Name
	if r.Into != "" {
		vhost = r.Into
	}
	if r.As != "" {
		queue = r.As
	}
	return vhost, queue
}

// define creates what the backup has and the cluster lacks. With chosen queues, or with other names, these are the
// queues alone.
func (r *Restore) define(ctx context.Context, chosen []*archive.Queue) error {
	document, err := r.From.Definitions(ctx)
	if err != nil || document == nil {
		return err
	}
	if len(r.Queues) > 0 || r.As != "" || r.Into != "" {
		if document, err = r.queuesOnly(document, chosen); err != nil {
			return err
		}
	}
	vhost := r.VHost
	if r.Into != "" {
		vhost = ""
	}
	r.made = map[string]client.ImportedObject{}
	summary, err := r.Client.ImportDefinitions(ctx, client.ImportDefinitionsRequest{Document: document, VHost: vhost, DryRun: r.DryRun, Seen: func(done []client.ImportedObject, _ int) {
		for _, o := range done {
			if o.Kind == "queue" {
				r.made[describe(o.VHost, o.Name)] = o
			}
		}
	}})
	if err != nil {
		return fmt.Errorf("definitions: %w", err)
	}
	r.Imported(summary)
	if n := summary.Refused + summary.Failed; n > 0 {
		return fmt.Errorf("%w: %d objects were refused or failed; import them by themselves to see why, or leave them out", ErrDefinitions, n)
	}
	return nil
}

// queuesOnly returns a document of the chosen queues with their new names.
func (r *Restore) queuesOnly(document []byte, chosen []*archive.Queue) ([]byte, error) {
	var all struct {
		Queues []map[string]json.RawMessage `json:"queues"`
	}
	if err := json.Unmarshal(document, &all); err != nil {
		return nil, fmt.Errorf("the backup's definitions: %w", err)
	}
	out := []map[string]json.RawMessage{}
	for _, q := range chosen {
		i := slices.IndexFunc(all.Queues, func(d map[string]json.RawMessage) bool {
			return is(d["name"], q.Name) && (d["vhost"] == nil || is(d["vhost"], q.VHost))
		})
		if i < 0 {
			continue // it was declared while the backup was made
		}
		d := all.Queues[i]
		vhost, name := r.target(q)
		d["vhost"], d["name"] = quoted(vhost), quoted(name)
		out = append(out, d)
	}
	return json.Marshal(map[string]any{"queues": out})
}

func is(raw json.RawMessage, want string) bool {
	var s string
	return json.Unmarshal(raw, &s) == nil && s == want
}

func quoted(s string) json.RawMessage {
	b, _ := json.Marshal(s) //nolint:errchkjson // a string always has a form
	return b
}

// queue restores one copy. Where a dry run would create the queue, only the copy is checked. problem is why the queue
// takes nothing, which hinders no other queue.
func (r *Restore) queue(ctx context.Context, q *archive.Queue, p Progress) (problem, err error) {
	vhost, name := r.target(q)
	out := RestoredQueue{VHost: vhost, Queue: name, Messages: q.Messages}
	report := func(done client.Restored, waits error) {
		if r.Progress == nil {
			return
		}
		now := p
		now.Queue, now.Messages, now.Waits = describe(vhost, name), p.Messages+done.Stored+done.Refused, waits
		r.Progress(now)
	}
	done, err := r.Client.RestoreQueue(ctx, client.RestoreQueueRequest{
		VHost: vhost, Queue: name, DryRun: r.DryRun, Run: r.runOf(vhost, name, q),
		Blocks: func() (func() ([]byte, error), error) { return r.From.Blocks(ctx, q), nil },
		Seen:   func(done client.Restored) { report(done, nil) },
		Patience: client.Patience{
			For: cmp.Or(r.Patience, defaultPatience), Waiting: func(why error) { report(client.Restored{}, why) },
		},
	})
	if r.DryRun && client.ClassOf(err) == client.NotFound && r.made[describe(vhost, name)].Outcome == client.ImportCreated {
		if err = r.From.VerifyQueue(ctx, q); err == nil {
			done.Stored = q.Messages
		}
	}
	out.Stored, out.Refused = done.Stored, done.Refused
	switch {
	case err == nil:
	case client.ClassOf(err) == client.NotFound:
		problem = fmt.Errorf("%s: %w%s", describe(vhost, name), err, r.remedy(vhost, name))
	case errors.Is(err, client.ErrNoProgress):
		problem = fmt.Errorf("%s: %w; repeat with --resume %s to go on", describe(vhost, name), err, r.Run)
	default:
		return nil, fmt.Errorf("%s: %w; repeat with --resume %s to go on", describe(vhost, name), err, r.Run)
	}
	if problem != nil {
		out.Problem = problem.Error()
	}
	r.Seen(out)
	return problem, nil
}

// remedy returns why the definitions did not create a queue, and what helps.
func (r *Restore) remedy(vhost, name string) string {
	const elsewhere = ": restore it by itself under the name of another queue, with --queue and --as, and --no-definitions if that exists"
	o, defined := r.made[describe(vhost, name)]
	switch {
	case r.NoDefinitions:
		return ""
	case !defined:
		return "; the definitions of the backup do not have it" + elsewhere
	case o.Outcome == client.ImportSkipped:
		return "; the definitions do not create it, as " + o.Reason + elsewhere
	}
	return ""
}

// runOf derives the run of one queue: the numbers of its messages are those of the copy.
func (r *Restore) runOf(vhost, name string, q *archive.Queue) (run [16]byte) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%q %q %q %q", r.Run, r.From.Manifest.ID, q.VHost, q.Name, vhost, name))
	copy(run[:], sum[:])
	return run
}
