package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"time"
)

// standstill is how long a run may stay without progress: without a confirm while messages are
// unconfirmed, without a delivery after that. However slow the machine is, a run waits for servers
// that still answer.
const standstill = 20 * time.Second

// witness is a system that can store diagnostics of its servers. Storing them may end the servers.
type witness interface {
	// testify stores the diagnostics in a directory.
	testify(ctx context.Context, dir string) error
}

// Bounds of the time for all diagnostics, and for one answer of a server.
const (
	testifyTimeout = 40 * time.Second
	fetchTimeout   = 3 * time.Second
)

// stuck is a workload that did not finish: it made no progress, or a connection was lost. dir has
// the diagnostics of its servers, if they support that.
type stuck struct{ why, dir string }

func (s *stuck) Error() string { return s.why + "; what client and servers did is in " + s.dir }

func isStuck(err error) bool {
	var s *stuck
	return errors.As(err, &s)
}

// progress is what the load waits for, and the count so far.
func (l *load) progress() (what string, n int64) {
	if !l.closed.Load() {
		return "confirm", l.confirmed.Load()
	}
	return "delivery", l.received.Load()
}

// watch cancels calls when there was no progress for a while, or a connection was lost.
func (l *load) watch(ctx context.Context, s system, after time.Duration, keep string, end func(error)) {
	tick := time.NewTicker(after / 20)
	defer tick.Stop()
	what, last := l.progress()
	since := time.Now()
	why := ""
	for why == "" {
		select {
		case <-tick.C:
			if w, n := l.progress(); w != what || n != last {
				what, last, since = w, n, time.Now()
			} else if time.Since(since) >= after {
				why = fmt.Sprintf("no %s for %s", what, after)
			}
		case err := <-l.lost:
			why = "a connection was lost: " + err.Error()
		case <-ctx.Done():
			return
		}
	}
	why = fmt.Sprintf("%s: %s: %s: %d sent, %d confirmed, of these %d refused, %d consumed",
		s.name(), l.w, why, l.sent.Load(), l.confirmed.Load(), l.refused.Load(), l.received.Load())
	dir, err := l.gather(ctx, s, keep)
	end(errors.Join(&stuck{why: why, dir: dir}, err))
}

// heed reports a session to watch when it ends by itself.
func (l *load) heed(ctx context.Context, x session) {
	select {
	case err := <-x.lost():
		select {
		case l.lost <- err:
		default: // another session was first
		}
	case <-ctx.Done():
	}
}

// gather stores diagnostics of this process and of the servers in a new directory in keep.
func (l *load) gather(ctx context.Context, s system, keep string) (dir string, err error) {
	ctx, cancel := context.WithTimeout(ctx, testifyTimeout)
	defer cancel()
	if err := os.MkdirAll(keep, 0o750); err != nil {
		return "", err
	}
	name := strings.ToLower(strings.ReplaceAll(s.name(), " ", "-"))
	if dir, err = os.MkdirTemp(keep, fmt.Sprintf("stuck-%s-%d-%d-%d-", name, l.w.Size, l.w.Queues, l.w.Window)); err != nil {
		return "", err
	}
	const stacks = 2
	err = store(filepath.Join(dir, "client.goroutines"), func(to io.Writer) error {
		return pprof.Lookup("goroutine").WriteTo(to, stacks)
	})
	if w, can := s.(witness); can {
		err = errors.Join(err, w.testify(ctx, dir))
	}
	return dir, err
}

// store writes a file.
func store(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// fetch stores the response of an HTTP address.
func fetch(ctx context.Context, url, path string) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	err = store(path, func(to io.Writer) error {
		_, err := io.Copy(to, answer.Body)
		return err
	})
	return errors.Join(err, answer.Body.Close())
}
