package quorumq

// check returns an inconsistency, if there is one.
func (r *ready) check(now Time) error {
	count, bytes := 0, uint64(0)
	for l := range r.levels {
		n, size, err := r.checkLevel(l, now)
		if err != nil {
			return err
		}
		count += n
		bytes += size
	}
	if err := checkBlocks(&r.returned); err != nil {
		return err
	}
	last := uint64(0)
	for x := range r.returned.all() {
		if x.number <= last || x.number >= r.nextReturn {
			return inv("returned number %d after %d, next is %d", x.number, last, r.nextReturn)
		}
		if err := x.check(now, r.nextOrd); err != nil {
			return err
		}
		last = x.number
		bytes += uint64(x.size)
	}
	if count != r.inLevels || bytes != r.bytes {
		return inv("ready is %d messages, %d bytes, counted %d, %d", count, bytes, r.inLevels, r.bytes)
	}
	return nil
}

// checkLevel checks one level, and returns the number and size of its messages.
func (r *ready) checkLevel(l int, now Time) (count int, bytes uint64, err error) {
	d := r.levels[l]
	if d == nil && r.occupied&(1<<l) == 0 {
		return 0, 0, nil
	}
	if d == nil {
		return 0, 0, inv("level %d has no messages against bits %#x", l, r.occupied)
	}
	if (d.len() > 0) != (r.occupied&(1<<l) != 0) {
		return 0, 0, inv("level %d holds %d messages against bits %#x", l, d.len(), r.occupied)
	}
	if err := checkBlocks(d); err != nil {
		return 0, 0, err
	}
	last, body := uint64(0), BodyRef{}
	for m := range d.all() {
		switch {
		case m.level() != l || m.ord <= last || m.ord>>ordBits >= r.nextOrd:
			return 0, 0, inv("ordinal %#x after %#x in level %d, next is %d", m.ord, last, l, r.nextOrd)
		case count > 0 && r.mixed&(1<<l) == 0 && compareRefs(m.body(), body) <= 0:
			return 0, 0, inv("body %v after %v in level %d", m.body(), body, l)
		case m.at > now || m.at < 0 || m.ttl < Unlimited:
			return 0, 0, inv("message %#x enqueued at %d with TTL %d, now %d", m.ord, m.at, m.ttl, now)
		}
		last, body = m.ord, m.body()
		count++
		bytes += uint64(m.size)
	}
	if count != d.len() {
		return 0, 0, inv("level %d counts %d, holds %d", l, d.len(), count)
	}
	return count, bytes, nil
}

// restoreLevels reads the messages of the levels from a snapshot, and calls each with each of them.
func (r *ready) restoreLevels(from *reader, each func(*message)) {
	occupied := from.u32()
	for l := range r.levels {
		if occupied&(1<<l) == 0 {
			continue
		}
		var last BodyRef
		restoreBlocks(from, r.level(l), func(m *message) {
			if compareRefs(last, m.body()) > 0 {
				r.mixed |= 1 << l
			}
			last = m.body()
			r.inLevels++
			r.bytes += uint64(m.size)
			each(m)
		})
		from.check(r.levels[l].len() > 0, errZero)
		if from.err != nil {
			return
		}
		r.occupied |= 1 << l
	}
}

// restoreReturned reads the returned list from a snapshot. It calls each with the annotations of every message.
func (r *ready) restoreReturned(from *reader, c *Config, each func(annotations BodyRef)) {
	restoreBlocks(from, &r.returned, func(x *returned) {
		each(x.annotations())
		r.bytes += uint64(x.size)
	})
	r.rearrange(c)
}
