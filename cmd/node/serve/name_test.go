package serve

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The own name is looked for until it resolves; meanwhile the log and the probes say so,
// at once, every few seconds and later every minute.
func TestWatchName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		n := &node{log: slog.New(slog.NewTextHandler(&out, nil)), health: newHealth(t.TempDir()), unwatch: make(chan struct{})}
		var known atomic.Bool
		n.watches.Go(func() {
			n.watchName("n1.example", func(context.Context, string) ([]string, error) {
				if known.Load() {
					return []string{"192.0.2.1"}, nil
				}
				return nil, errors.New("no such host")
			})
		})
		expect := func(after time.Duration, infos, warnings int, probe string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			text := out.String()
			if i, w := strings.Count(text, "does not resolve yet"), strings.Count(text, "level=WARN"); i != infos || w != warnings {
				t.Errorf("%d lines and %d warnings, want %d and %d:\n%s", i, w, infos, warnings, text)
			}
			if got := n.health.warnings(); got != probe {
				t.Errorf("probes say %q, want %q", got, probe)
			}
		}
		const fault = `advertise.host "n1.example" does not resolve: no such host`
		expect(0, 1, 0, fault)
		expect(12*time.Second, 3, 0, fault)
		expect(108*time.Second, 12, 1, fault)
		expect(time.Minute, 12, 2, fault)
		known.Store(true)
		expect(time.Second, 12, 2, "")
		n.watches.Wait()
		if !strings.Contains(out.String(), "own name resolves") {
			t.Error("that it resolves was not said")
		}
	})
}
