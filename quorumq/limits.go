package quorumq

// Full reports whether a limit leaves no room for one more message with a body (LEN-7).
func (q *Queue) Full() bool { return q.length().exceeds(&q.config, 1, 1) }

// dropHead removes ready messages while a limit is exceeded (LEN-3). Limits of ready messages are
// left to enforce, because consumers come first (LEN-9).
func (q *Queue) dropHead() {
	if !q.config.limited() {
		return
	}
	if q.config.Rules < RulesThird {
		q.dropWhile(length.over)
		return
	}
	q.dropWhile(length.overTotal)
	q.overfull = true
}

// enforce removes what exceeds a limit after consumers have been served, as far as the slice
// allows. The timer asks for the rest, and also if more consumers wait than one command serves.
func (q *Queue) enforce() {
	if !q.overfull {
		return
	}
	q.overfull = false
	if !q.more {
		q.dropWhile(length.over)
	}
}

// excess reports whether a limit still asks for removals.
func (q *Queue) excess() bool {
	if q.config.Rules < RulesThird || !q.config.limited() || q.store.len() == 0 {
		return false
	}
	return !q.config.refuses(q.backlog.set.len()) && q.length().over(&q.config)
}

// dropWhile removes messages as long as the queue exceeds a limit and the budget allows.
func (q *Queue) dropWhile(exceeds func(length, *Config) bool) {
	for q.store.len() > 0 && !q.config.refuses(q.backlog.set.len()) && exceeds(q.length(), &q.config) && q.budget.drop(q.config.Rules) {
		h, _ := q.store.popVictim(&q.config)
		q.discard(&h, ReasonMaxLen)
	}
}
