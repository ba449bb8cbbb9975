package quorumq

// The second byte of modes: the victim in its low bits, then flags.
const (
	victimMode   = 3
	flagFair     = 4
	flagToPlace  = 8
	flagMaxTotal = 16  // the limit follows
	flagRetry    = 32  // the retry settings follow
	flagBacklog  = 64  // the settings of the backlog follow
	flagRules    = 128 // the rules follow, last
	furtherModes = victimMode | flagFair | flagToPlace | flagMaxTotal | flagRetry | flagBacklog | flagRules
)

// moreModes returns the second byte of modes; 0: it is not written.
func moreModes(c Config) byte {
	b := byte(c.Victim)
	for _, m := range [...]struct {
		set  bool
		flag byte
	}{
		{c.FairPriorities, flagFair},
		{c.ReturnToPlace, flagToPlace},
		{c.MaxLengthTotal >= 0, flagMaxTotal},
		{c.Retry.Type != RetryDisabled, flagRetry},
		{c.BacklogLimit > 0 || c.OnSwitch != SwitchUnset, flagBacklog},
		{c.Rules != RulesFirst, flagRules},
	} {
		if m.set {
			b |= m.flag
		}
	}
	return b
}

// putMore writes the second byte of modes, and what follows according to it.
func putMore(b []byte, c Config, modes byte) []byte {
	b = append(b, modes)
	if c.MaxLengthTotal >= 0 {
		b = putU(b, uint64(c.MaxLengthTotal))
	}
	if c.Retry.Type != RetryDisabled {
		b = putRetry(b, &c.Retry)
	}
	if modes&flagBacklog != 0 {
		b = putU(append(b, byte(c.OnSwitch)), uint64(c.BacklogLimit))
	}
	if modes&flagRules != 0 {
		b = append(b, byte(c.Rules))
	}
	return b
}

// putRetry writes what reader.retry reads.
func putRetry(b []byte, r *Retry) []byte {
	b = append(b, byte(r.Type), byte(r.Backoff), r.JitterPercent)
	b = putU(putU(b, uint64(r.MinMs)), uint64(r.MaxMs))
	if r.Backoff != BackoffSteps {
		return b
	}
	b = append(b, r.Steps)
	for _, ms := range r.StepsMs[:r.Steps] {
		b = putU(b, uint64(ms))
	}
	return b
}

// more reads what putMore writes. It does not check ranges: the caller compares the configuration
// with its normal form.
func (r *reader) more(c *Config) {
	modes := r.flags(furtherModes)
	r.check(modes != 0, errZero)
	c.Victim = Victim(modes & victimMode)
	c.FairPriorities, c.ReturnToPlace = modes&flagFair != 0, modes&flagToPlace != 0
	if modes&flagMaxTotal != 0 {
		c.MaxLengthTotal = r.i()
	}
	if modes&flagRetry != 0 {
		r.retry(&c.Retry)
	}
	if modes&flagBacklog != 0 {
		c.OnSwitch, c.BacklogLimit = OnSwitch(r.byte()), r.i()
		r.check(c.BacklogLimit > 0 || c.OnSwitch != SwitchUnset, errZero)
	}
	if modes&flagRules != 0 {
		c.Rules = Rules(r.byte())
		r.check(c.Rules != RulesFirst, errZero)
	}
}

// retry reads how returned messages wait.
func (r *reader) retry(t *Retry) {
	t.Type, t.Backoff, t.JitterPercent = RetryType(r.byte()), Backoff(r.byte()), r.byte()
	r.check(t.Type != RetryDisabled, errZero)
	t.MinMs, t.MaxMs = r.i(), r.i()
	if t.Backoff != BackoffSteps {
		return
	}
	t.Steps = r.byte()
	r.check(t.Steps <= MaxRetrySteps, errRange)
	for i := range min(t.Steps, MaxRetrySteps) {
		t.StepsMs[i] = r.i()
	}
}

// The byte of modes: the overflow mode in its low bits, then flags.
const (
	overflowMode     = 3
	flagSingleActive = 4
	flagExpires      = 8 // its time follows
	flagIfEmpty      = 16
	flagTimeout      = 32 // the consumer timeout follows
	flagAutoDelete   = 64
	flagMore         = 128 // more modes follow, last
	modes            = overflowMode | flagSingleActive | flagExpires | flagIfEmpty | flagTimeout | flagAutoDelete | flagMore
)

// configModes returns the byte of modes.
func configModes(c Config) byte {
	b := byte(c.Overflow)
	if c.SingleActive {
		b |= flagSingleActive
	}
	if c.ExpiresMs > 0 {
		b |= flagExpires
	}
	if c.ExpiresIfEmpty {
		b |= flagIfEmpty
	}
	if c.ConsumerTimeoutMs > 0 {
		b |= flagTimeout
	}
	if c.AutoDelete {
		b |= flagAutoDelete
	}
	if moreModes(c) != 0 {
		b |= flagMore
	}
	return b
}

// putConfig writes a configuration in its normal form.
func putConfig(b []byte, c Config) []byte {
	c = c.Normal()
	b = putLimit(b, c.MaxLength)
	b = putLimit(b, c.MaxLengthBytes)
	b = append(b, configModes(c))
	b = putLimit(b, c.MessageTTLMs)
	b = append(b, byte(c.DeadLetter))
	b = putLimit(b, c.DeliveryLimit)
	b = putU(b, uint64(c.DisconnectedTimeoutMs))
	if c.ExpiresMs > 0 {
		b = putU(b, uint64(c.ExpiresMs))
	}
	if c.ConsumerTimeoutMs > 0 {
		b = putU(b, uint64(c.ConsumerTimeoutMs))
	}
	if more := moreModes(c); more != 0 {
		return putMore(b, c, more)
	}
	return b
}

// config reads a configuration, and refuses one that is not in its normal form.
func (r *reader) config() Config {
	c := Config{MaxLength: r.limit(), MaxLengthBytes: r.limit(), MaxLengthTotal: Unlimited, ExpiresMs: Unlimited}
	flags := r.flags(modes)
	c.Overflow = Overflow(flags & overflowMode)
	c.SingleActive, c.ExpiresIfEmpty = flags&flagSingleActive != 0, flags&flagIfEmpty != 0
	c.AutoDelete = flags&flagAutoDelete != 0
	c.MessageTTLMs = r.limit()
	c.DeadLetter = DeadLetterMode(r.byte())
	c.DeliveryLimit = r.limit()
	c.DisconnectedTimeoutMs = r.i()
	if flags&flagExpires != 0 {
		c.ExpiresMs = r.i()
		r.check(c.ExpiresMs > 0, errZero)
	}
	if flags&flagTimeout != 0 {
		c.ConsumerTimeoutMs = r.i()
		r.check(c.ConsumerTimeoutMs > 0, errZero)
	}
	if flags&flagMore != 0 {
		r.more(&c)
	}
	r.check(c == c.Normal(), errRange)
	return c
}
