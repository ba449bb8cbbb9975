//go:build invariants

package quorumq

// checked reports whether commands are followed by a check.
const checked = true

// fullCheckLen is the number of messages up to which every command is followed by a full check.
// With more messages, only every n-th command is.
const fullCheckLen = 2048

// verify stops the queue loudly if a command has left it inconsistent.
func verify(q *Queue, m Meta) {
	n := uint64(q.len()) / fullCheckLen
	if m.Index%(n*n+1) != 0 {
		return
	}
	if err := q.check(); err != nil {
		panic(err) //nolint:forbidigo // a wrong state must not answer anything more
	}
}
