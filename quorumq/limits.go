package quorumq

// Full tells whether a limit leaves no room for one more message with a body (LEN-7).
func (q *Queue) Full() bool { return q.length().exceeds(&q.config, 1, 1) }

// dropHead removes ready messages while a limit is exceeded (LEN-3). Those of what is ready
// wait for enforce: consumers come first (LEN-9).
func (q *Queue) dropHead() {
	if !q.config.limited() {
		return
	}
	if q.config.Rules < RulesThird {
		q.dropWhile(func() bool { return q.length().exceeds(&q.config, 0, 0) })
		return
	}
	q.dropWhile(func() bool { return q.length().exceedsTotal(&q.config, 0) })
	q.overfull = true
}

// enforce removes what is above a limit once consumers have been served, as far as the slice
// goes: the timer asks for the rest, also where more consumers wait than one command serves.
func (q *Queue) enforce() {
	if !q.overfull {
		return
	}
	q.overfull = false
	if !q.more {
		q.dropWhile(func() bool { return q.length().exceeds(&q.config, 0, 0) })
	}
}

// excess tells whether something is left that a limit removes.
func (q *Queue) excess() bool {
	return q.config.Rules >= RulesThird && q.config.limited() && !q.refuses() && q.length().exceeds(&q.config, 0, 0) && q.store.len() > 0
}

// dropWhile removes victims as long as that is so, and as the budget allows.
func (q *Queue) dropWhile(exceeded func() bool) {
	for !q.refuses() && exceeded() && q.store.len() > 0 && q.budget.drop(q.config.Rules) {
		h, _ := q.store.takeVictim(&q.config)
		q.discard(&h, ReasonMaxLen)
	}
}
