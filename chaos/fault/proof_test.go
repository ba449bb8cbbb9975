package fault

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

// standing is a cluster whose nodes answer when a function says so, and have the processes that another one says.
type standing struct {
	target.Cluster
	target.Processes
	answers func(ctx context.Context, node string) error
	running map[string]bool
}

func (c *standing) WaitReady(ctx context.Context, node string) error { return c.answers(ctx, node) }

func (c *standing) Running(node string) bool { return c.running[node] }

// A process has ended if there is none, if it is of a later epoch, or if others refuse what is there now.
func TestProcessesEnded(t *testing.T) {
	before := map[string]client.ClusterNode{"a": {ID: "a", Epoch: 3}, "b": {ID: "b", Epoch: 5}}
	for name, test := range map[string]struct {
		running map[string]bool
		now     map[string]client.ClusterNode
		ended   bool
	}{
		"as before":              {map[string]bool{"a": true, "b": true}, before, false},
		"one has ended":          {map[string]bool{"b": true}, before, false},
		"both have ended":        {nil, before, true},
		"one started again":      {map[string]bool{"b": true}, map[string]client.ClusterNode{"b": {Epoch: 6}}, true},
		"refused with its store": {map[string]bool{"b": true}, map[string]client.ClusterNode{"b": {Epoch: 5, Refused: "another store"}}, true},
		"nobody answers":         {map[string]bool{"a": true, "b": true}, nil, false},
	} {
		s := &Scene{Cluster: &standing{running: test.running}}
		if said, ended := processesEnded(s, []string{"a", "b"}, before, test.now); ended != test.ended || !strings.Contains(said, "node a") || !strings.Contains(said, "node b") {
			t.Errorf("%s: %v, %s", name, ended, said)
		}
	}
	unknown := &Scene{Cluster: &standing{running: map[string]bool{"a": true}}}
	if said, ended := processesEnded(unknown, []string{"a"}, nil, map[string]client.ClusterNode{"a": {Epoch: 9}}); ended {
		t.Errorf("nobody knows what was before: %s", said)
	}
}

// A node that is stopped answers nothing; one that is stopped for moments answers late now and then.
func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		stands := errors.New("it stands")
		answers := map[string]func(context.Context) error{
			"well":  func(context.Context) error { return nil },
			"stops": func(ctx context.Context) error { <-ctx.Done(); return stands },
			"strobes": func(ctx context.Context) error { // 250 ms of 400 it is stopped
				if at := time.Since(begin) % (400 * time.Millisecond); at < 250*time.Millisecond {
					return wait.For(ctx, 250*time.Millisecond-at)
				}
				return nil
			},
		}
		s := &Scene{Cluster: &standing{answers: func(ctx context.Context, node string) error { return answers[node](ctx) }}}
		for _, test := range []struct {
			nodes             []string
			silent, hesitates bool
		}{
			{[]string{"well"}, false, false},
			{[]string{"stops"}, true, true},
			{[]string{"strobes"}, false, true},
			{[]string{"stops", "well"}, false, false},
		} {
			if said, is, err := silent(s, test.nodes)(t.Context()); is != test.silent || err != nil {
				t.Errorf("%v silent: %v, %s, %v", test.nodes, is, said, err)
			}
			if said, is, err := hesitant(s, test.nodes)(t.Context()); is != test.hesitates || err != nil {
				t.Errorf("%v hesitates: %v, %s, %v", test.nodes, is, said, err)
			}
		}
	})
}

// One bit of what is not zero is another one afterwards, in the file that is meant.
func TestFlip(t *testing.T) {
	meant := []struct {
		files
		want []string
	}{
		{files{patterns: []string{"wal/*.wal"}, newest: true}, []string{"wal/0000000f.wal"}},
		{files{}, []string{"wal/00000001.wal", "wal/0000000f.wal", "epoch.0"}},
	}
	for pick := range uint64(20) {
		dir := t.TempDir()
		content := map[string]string{
			"wal/00000001.wal": "old", "wal/0000000f.wal": "new", "wal/00000010.wal": "\x00\x00", "epoch.0": "7", "lock": "8",
		}
		for name, text := range content {
			name = filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o750), os.WriteFile(name, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range meant {
			what, err := flip(dir, pick, m.files)
			if err != nil {
				t.Fatal(err)
			}
			changed := 0
			for name, text := range content {
				got, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				if string(got) == text {
					continue
				}
				content[name] = string(got)
				if changed++; !slices.Contains(m.want, name) || !strings.Contains(what, name) {
					t.Errorf("changed %s, said %q, want one of %v", name, what, m.want)
				}
			}
			if changed != 1 {
				t.Errorf("%d files changed: %s", changed, what)
			}
		}
	}
}
