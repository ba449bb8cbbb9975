package gateway

// confirmation is an answer to Enqueue. It is not a closure, because there are so many.
type confirmation struct {
	done func(error)
	err  error
}

// outbox collects what remains to be done after a pass over the inbox, without mu.
type outbox struct {
	sends     []func()
	confirmed []confirmation
	calls     []func()
}

func (out *outbox) empty() bool { return len(out.sends)+len(out.confirmed)+len(out.calls) == 0 }

// flush sends and calls back. The caller must not hold q.mu, because what flush calls may call the
// queue. The slices are reused.
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
