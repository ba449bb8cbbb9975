package wal

import (
	"testing"

	"github.com/quorate/quorate/wal/vfs"
)

// script goes through everything that a member does, in the order in which raft does it.
func script() []op {
	return []op{
		term(1), vote(1, "n1"), store(1, 1, 3, 60), store(4, 1, 5, 300), term(1), vote(1, "n1"),
		term(2), store(9, 2, 1, 5000), // larger than a segment
		store(10, 2, 20, 200),
		remove(20, 29), store(20, 3, 4, 150), // a conflict
		remove(20, 40), remove(24, 30), // half of it again, then nothing
		store(20, 4, 6, 100),
		remove(1, 12), retain(2, 5, 6, 9, 30), tidy(),
		store(26, 4, 10, 250), remove(13, 30), retain(5, 9, 14, 22, 23), tidy(),
		vote(5, "n3"), store(36, 5, 10, 200), remove(1, 44), retain(9, 23), retain(9, 23), tidy(),
		// A snapshot from the leader replaces the log; its own conflicts at 23.
		bring(6, 100, 9, 23, 50, 51, 52, 70), remove(45, 45), store(80, 6, 5, 100),
		retain(9, 23, 50, 52, 70), tidy(),
		store(85, 6, 20, 200), remove(80, 90), retain(23, 52, 85, 86), tidy(),
		// A suffix goes and the next snapshot jumps over where it was.
		remove(100, 104), bring(7, 90, 101), store(120, 7, 5, 100), retain(23, 86, 99, 101), tidy(),
		// Only one that empties its log may begin lower.
		remove(120, 124), store(110, 8, 3, 100), tidy(), retain(23, 101), tidy(),
		deleteGroup(), tidy(), store(1, 9, 3, 100), tidy(), bring(9, 50, 2), remove(1, 2), retain(2), tidy(),
		store(4, 9, 30, 300), remove(1, 30), retain(), tidy(), store(34, 9, 30, 300), tidy(),
		deleteGroup(), term(10), store(5, 10, 2, 100), tidy(),
	}
}

func dirs(t *testing.T) map[string]func() vfs.Dir {
	return map[string]func() vfs.Dir{
		"memory": func() vfs.Dir { return vfs.NewMem() },
		"files": func() vfs.Dir {
			d, err := vfs.OS(t.TempDir())
			ok(t, err)
			return d
		},
	}
}

// The log does what raft.LogStore, raft.StableStore and the storage of raftfsm promise,
// and is the same after it was opened again, after every step.
func TestScript(t *testing.T) {
	for name, dir := range dirs(t) {
		for _, reopen := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				d := dir()
				l := open(t, d, testConfig())
				m := newModel()
				for _, o := range script() {
					if err := o.run(l, groupOf(t, l, 7)); err != nil {
						t.Fatalf("%s: %v", o.name, err)
					}
					steps := o.steps(m)
					m = steps[len(steps)-1]
					if got, want := look(t, groupOf(t, l, 7)), m.String(); got != want {
						t.Fatalf("%s:\ngot  %s\nwant %s", o.name, got, want)
					}
					if reopen {
						ok(t, l.Close())
						l = open(t, d, testConfig())
						if got, want := look(t, groupOf(t, l, 7)), m.String(); got != want {
							t.Fatalf("%s, opened again:\ngot  %s\nwant %s", o.name, got, want)
						}
					}
				}
				ok(t, l.Close())
			})
		}
	}
}
