package quorumq

// applySessionClosed ends a session as a failure of its consumers (DEL-8), but for what never
// left, for good: it is remembered also if its Checkout has not come yet.
func (q *Queue) applySessionClosed(c *SessionClosed) {
	if n, ok := q.member(c.Session.Node, c.Session.Epoch); ok {
		n.close(c.Session.Session)
	}
	if s := q.sessions[c.Session]; s != nil {
		q.closing = append(q.closing[:0], s)
		q.closeSessions(true, q.closing, c.Unsent)
	}
}

// applyNodeDown suspects a node (DC-1). A repeat does not move the deadline.
func (q *Queue) applyNodeDown(c *NodeDown) {
	n := q.nodes[c.Node]
	if n == nil || c.Epoch < n.epoch {
		return
	}
	if c.Epoch > n.epoch {
		q.raise(n, c.Epoch)
	}
	if n.suspected || !q.hasSession(n) {
		return
	}
	n.suspected = true
	n.deadline = max(after(q.now, q.config.DisconnectedTimeoutMs), 1) // 0 is none
	q.suspects++
	q.elect()
	q.timeOutNodes()
}

// applyNodeUp ends a suspicion.
func (q *Queue) applyNodeUp(c *NodeUp) {
	n := q.nodes[c.Node]
	if n == nil || c.Epoch < n.epoch {
		return
	}
	if c.Epoch > n.epoch {
		q.raise(n, c.Epoch)
	}
	q.trust(n)
}

func (q *Queue) hasSession(n *node) bool {
	for _, s := range q.order {
		if s.node == n {
			return true
		}
	}
	return false
}

// nextNodeTimeout returns the earliest deadline of a suspected node, 0 if there is none.
func (q *Queue) nextNodeTimeout() Time {
	first := Time(0)
	if q.suspects == 0 {
		return first
	}
	for _, n := range q.nodes {
		if n.suspected && (first == 0 || n.deadline < first) {
			first = n.deadline
		}
	}
	return first
}

// timeOutNodes ends the sessions of nodes that were unreachable for too long: their
// messages return, not failed (DC-1).
func (q *Queue) timeOutNodes() {
	if d := q.nextNodeTimeout(); d == 0 || d > q.now {
		return
	}
	late := q.sessionsOf(func(n *node) bool { return n.suspected && n.deadline <= q.now })
	for _, s := range late {
		q.baseID = max(q.baseID, s.base)
		for _, c := range s.consumers {
			q.baseID = max(q.baseID, c.last)
			if c.subscribes() {
				q.effects.Notices = append(q.effects.Notices, Notice{Consumer: c.key, Kind: NoticeCancelled})
			}
		}
	}
	q.closeSessions(false, late, Unsent{})
	for _, n := range q.nodes {
		if n.suspected && n.deadline <= q.now {
			n.suspected, n.deadline = false, 0
			q.suspects--
		}
	}
}
