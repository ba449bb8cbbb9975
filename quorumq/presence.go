package quorumq

// applySessionClosed ends a session for good. What its consumers hold counts as failed, except
// deliveries that never left the leader's node (DEL-8). The session is remembered as closed even if
// its Checkout has not arrived yet.
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
	q.nodes.suspect(n, max(after(q.now, q.config.DisconnectedTimeoutMs), 1)) // 0 would mean none
	q.subs.elect()
	q.timeOutNodes()
}

// applyNodeUp ends the suspicion of a node.
func (q *Queue) applyNodeUp(c *NodeUp) {
	if n := q.nodes.byID[c.Node]; n != nil && q.speaks(n, c.Epoch) {
		q.subs.trust(n, &q.nodes)
	}
}
