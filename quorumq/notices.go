package quorumq

// notices are those of the command that is being applied, in the order in which consumers get them.
// Between commands there are none.
type notices []Notice

// cancelled notifies a consumer that the queue has cancelled it.
func (ns *notices) cancelled(c *consumer) {
	*ns = append(*ns, Notice{Consumer: c.key, Kind: NoticeCancelled})
}

// leader notifies a session that there is a new leader. The notice goes to the session's consumer
// with the lowest tag (0 if it has none), on behalf of all its consumers.
func (ns *notices) leader(s *session) {
	k := ConsumerKey{SessionKey: s.key}
	if len(s.consumers) > 0 {
		k = s.consumers[0].key
	}
	*ns = append(*ns, Notice{Consumer: k, Kind: NoticeLeader})
}

// activity notifies a consumer whether it is the active one.
func (ns *notices) activity(c *consumer, active bool) {
	n := Notice{Consumer: c.key, Kind: NoticeWaiting}
	if active {
		n.Kind = NoticeActive
	}
	*ns = append(*ns, n)
}

// revoked notifies a consumer that it has lost a delivery. Consecutive ids share one notice; joins
// is true from the consumer's second delivery on.
func (ns *notices) revoked(c *consumer, m MsgID, joins bool) {
	if n := len(*ns); joins && (*ns)[n-1].Messages.Last+1 == m {
		(*ns)[n-1].Messages.Last = m
		return
	}
	*ns = append(*ns, Notice{Consumer: c.key, Kind: NoticeRevoked, Messages: MsgIDRange{First: m, Last: m}})
}
