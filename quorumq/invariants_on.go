//go:build invariants

package quorumq

// checked reports whether commands are followed by a check.
const checked = true

// fullCheckLen is up to how many messages every command is followed by a full check;
// with more, one in so many commands is.
const fullCheckLen = 2048

// verify stops the queue loudly if a command left it inconsistent.
func verify(q *Queue, m Meta) {
	n := uint64(q.len()) / fullCheckLen
	if m.Index%(n*n+1) != 0 {
		return
	}
	if err := q.check(); err != nil {
		panic(err) //nolint:forbidigo // a wrong state must not answer anything more
	}
}
