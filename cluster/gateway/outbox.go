package gateway

// confirmation is an answer to Enqueue; there are many, so that they are no closures.
type confirmation struct {
	done func(error)
	err  error
}

// outbox gathers what a pass over the inbox does once mu is free.
type outbox struct {
	sends     []func()
	confirmed []confirmation
	calls     []func()
}

func (out *outbox) empty() bool { return len(out.sends)+len(out.confirmed)+len(out.calls) == 0 }

// flush is called without q.mu: what it calls may come back to the queue. The slices are used again.
func (out *outbox) flush() {
	for i, f := range out.sends {
		f()
		out.sends[i] = nil
	}
	for i, c := range out.confirmed {
		c.done(c.err)
		out.confirmed[i] = confirmation{}
	}
	for i, f := range out.calls {
		f()
		out.calls[i] = nil
	}
	out.sends, out.confirmed, out.calls = out.sends[:0], out.confirmed[:0], out.calls[:0]
}
