package quorumq

// applySessionClosed ends a session as a failure of its consumers (DEL-8), but for what never
// left, for good: it is remembered also if its Checkout has not come yet.
func (q *Queue) applySessionClosed(c *SessionClosed) {
	if n, ok := q.member(c.Session.Node, c.Session.Epoch); ok {
		n.close(c.Session.Session)
	}
	q.closeSessions(true, q.subs.sessionOf(c.Session), c.Unsent)
}

// applyNodeDown suspects a node (DC-1). A repeat does not move the deadline.
func (q *Queue) applyNodeDown(c *NodeDown) {
	n := q.nodes.byID[c.Node]
	if n == nil || !q.speaks(n, c.Epoch) || n.suspected || !q.subs.hasSession(n) {
		return
	}
	q.nodes.suspect(n, max(after(q.now, q.config.DisconnectedTimeoutMs), 1)) // 0 is none
	q.subs.elect()
	q.timeOutNodes()
}

// applyNodeUp ends a suspicion.
func (q *Queue) applyNodeUp(c *NodeUp) {
	if n := q.nodes.byID[c.Node]; n != nil && q.speaks(n, c.Epoch) {
		q.subs.trust(n, &q.nodes)
	}
}
