package quorumq

// commandVersion is the first byte of a stored command; see docs/formats/command.md.
const commandVersion = 1

// versionOf returns the machine version that a member must know to carry out a command.
func versionOf(c Command) byte {
	switch c := c.(type) {
	case *Configure:
		if r := c.Config.Normal().Rules; r != RulesFirst {
			return byte(r)
		}
	case *SessionClosed:
		if len(c.Unsent.Ranges) > 0 {
			return byte(RulesThird)
		}
	case *Enqueue:
		if hasPast(c.Messages) {
			return versionPast
		}
	case *Renumber, *ForgetSources, *Seal:
		return byte(RulesSeventh)
	}
	return commandVersion
}

// Flags of a message in an Enqueue or Transfer.
const (
	flagTTL          = 1 << iota // a TTL follows
	flagPriority                 // a priority other than the default follows
	flagVoid                     // no size: VoidSize
	flagProducer                 // a producer's id and number follow
	flagSameProducer             // a number follows; the producer is that of the message before
	flagReadyAt                  // a time follows
	flagReadyAfter               // milliseconds follow
	flagJoined                   // the next message is of the same unit
	messageFlags     = flagTTL | flagPriority | flagVoid | flagProducer | flagSameProducer | flagReadyAt | flagReadyAfter | flagJoined
)

// Flags of a Checkout.
const (
	flagCredit = 1 << iota
	flagAutoAck
	flagExclusive
	flagOwnTimeout // a timeout follows
	checkoutFlags  = flagCredit | flagAutoAck | flagExclusive | flagOwnTimeout
)

// Flags of a Requeue or Discard; the last two of a Requeue only.
const (
	flagFailed = 1 << iota
	flagAnnotations
	flagRequeueAt
	flagRequeueAfter
	outcomeFlags = flagFailed | flagAnnotations
	requeueFlags = outcomeFlags | flagRequeueAt | flagRequeueAfter
)

// AppendCommand appends the stored form of a command, without the bodies that belong to it. A
// command that Decode would refuse must not be stored.
func AppendCommand(b []byte, c Command) []byte {
	b = append(b, versionOf(c), byte(c.kind()))
	switch c := c.(type) {
	case *Enqueue:
		return putEnqueue(b, c)
	case *Transfer:
		return putTransfer(b, c)
	case *Checkout:
		return putCheckout(b, c)
	case *Cancel:
		return putBool(putConsumer(b, c.Consumer), c.Requeue)
	case *Credit:
		return putU(putConsumer(b, c.Consumer), uint64(c.Limit))
	case *Settle:
		return putMsgIDRanges(putConsumer(b, c.Consumer), c.Ranges)
	case *Requeue:
		return putOutcome(b, c.Consumer, c.Ranges, c.Failed, c.HasAnnotations, c.Delay)
	case *Discard:
		return putOutcome(b, c.Consumer, c.Ranges, c.Failed, c.HasAnnotations, Delay{})
	case *Get:
		return putBool(putSession(b, c.Session), c.AutoAck)
	case *Configure:
		return putConfig(b, c.Config)
	case *BacklogSettle:
		b = putU(b, uint64(len(c.Ranges)))
		for _, r := range c.Ranges {
			b = putU(putU(b, uint64(r.First)), uint64(r.Last-r.First))
		}
		return b
	case *SessionClosed:
		b = putSession(b, c.Session)
		if len(c.Unsent.Ranges) > 0 {
			b = putMsgIDRanges(putU(b, uint64(c.Unsent.Tag)), c.Unsent.Ranges)
		}
		return b
	case *NodeDown:
		return putU(putNode(b, c.Node), uint64(c.Epoch))
	case *NodeUp:
		return putU(putNode(b, c.Node), uint64(c.Epoch))
	case *Lead:
		return putU(putNode(b, c.Node), c.Term)
	case *Extend:
		return putMsgIDRanges(putU(putConsumer(b, c.Consumer), uint64(c.TimeoutMs)), c.Ranges)
	case *Move:
		return putMove(b, c)
	case *RetryDelayed:
		return putU(b, c.Limit)
	case *Transact:
		b = putU(putMsgIDRanges(putConsumer(b, c.Consumer), c.Ranges), uint64(len(c.Outputs)))
		for i := range c.Outputs {
			b = putU(putText(b, c.Outputs[i].Exchange), uint64(c.Outputs[i].Size))
		}
		return b
	case *ForgetSources:
		b = putU(b, uint64(len(c.Sources)))
		for _, uid := range c.Sources {
			b = putU(b, uint64(uid))
		}
		return b
	case *Seal:
		return putBool(putBool(b, c.IfUnused), c.IfExpired)
	default: // Expire, Purge, Renew, DrainDelete, Renumber
		return b
	}
}

// putEnqueue writes the messages one after another. The producer of a message is left out if the
// previous message has the same one.
func putEnqueue(b []byte, c *Enqueue) []byte {
	b = putU(putNode(b, c.Enqueuer.Node), uint64(c.Enqueuer.Epoch))
	b = putU(putU(b, uint64(c.First)), uint64(c.Answered))
	b = putU(b, uint64(len(c.Messages)))
	var producer *ProducerID
	past := hasPast(c.Messages)
	for i := range c.Messages {
		m := &c.Messages[i]
		b = putMessage(b, m, producer)
		producer = m.Producer
		if past {
			b = putPast(b, m.Past)
		}
	}
	return b
}

// hasPast reports whether one of the messages has a past.
func hasPast(ms []NewMessage) bool {
	for i := range ms {
		if ms[i].Past != nil {
			return true
		}
	}
	return false
}

// putTransfer writes dead letters with their numbers; they have no producers.
func putTransfer(b []byte, c *Transfer) []byte {
	b = putU(putU(b, uint64(c.Source)), uint64(c.Settled))
	b = putU(b, uint64(len(c.DeadLetters)))
	for i := range c.DeadLetters {
		b = putU(b, uint64(c.DeadLetters[i].Seq))
		b = putMessage(b, &c.DeadLetters[i].NewMessage, nil)
	}
	return b
}

// putMessage writes a message; before is the producer of the previous one.
func putMessage(b []byte, m *NewMessage, before *ProducerID) []byte {
	flags := byte(0)
	if m.TTLMs >= 0 {
		flags |= flagTTL
	}
	if m.Priority != DefaultPriority {
		flags |= flagPriority
	}
	if m.Size == VoidSize {
		flags |= flagVoid
	}
	switch {
	case m.Producer == nil:
	case before != nil && *before == *m.Producer:
		flags |= flagSameProducer
	default:
		flags |= flagProducer
	}
	if m.At > 0 {
		flags |= flagReadyAt
	}
	if m.Ms > 0 {
		flags |= flagReadyAfter
	}
	if m.Joined {
		flags |= flagJoined
	}
	b = append(b, flags)
	if m.Size != VoidSize {
		b = putU(b, uint64(m.Size))
	}
	if m.TTLMs >= 0 {
		b = putU(b, uint64(m.TTLMs))
	}
	if m.Priority != DefaultPriority {
		b = append(b, m.Priority)
	}
	b = putDelay(b, m.Delay)
	if flags&flagProducer != 0 {
		b = append(b, m.Producer[:]...)
	}
	if m.Producer != nil {
		b = putU(b, m.ProducerSeq)
	}
	return b
}

// putCheckout writes the settings of a subscription, with a timeout only if the consumer has its
// own.
func putCheckout(b []byte, c *Checkout) []byte {
	flags := byte(0)
	if c.Credit {
		flags |= flagCredit
	}
	if c.AutoAck {
		flags |= flagAutoAck
	}
	if c.Exclusive {
		flags |= flagExclusive
	}
	if c.HasTimeout {
		flags |= flagOwnTimeout
	}
	b = append(putConsumer(b, c.Consumer), flags)
	b = putU(putU(b, uint64(c.Prefetch)), uint64(c.Limit))
	b = putZ(b, int64(c.Priority))
	if c.HasTimeout {
		b = putU(b, uint64(c.TimeoutMs))
	}
	return b
}

// putDelay writes the parts of a delay that are set.
func putDelay(b []byte, d Delay) []byte {
	if d.At > 0 {
		b = putU(b, uint64(d.At))
	}
	if d.Ms > 0 {
		b = putU(b, uint64(d.Ms))
	}
	return b
}

// putOutcome writes a Requeue or Discard.
func putOutcome(b []byte, k ConsumerKey, rs []MsgIDRange, failed, annotated bool, d Delay) []byte {
	flags := byte(0)
	if failed {
		flags |= flagFailed
	}
	if annotated {
		flags |= flagAnnotations
	}
	if d.At > 0 {
		flags |= flagRequeueAt
	}
	if d.Ms > 0 {
		flags |= flagRequeueAfter
	}
	return putMsgIDRanges(putDelay(append(putConsumer(b, k), flags), d), rs)
}

// putMove writes the destination, and the places in the order in which their messages are moved.
func putMove(b []byte, c *Move) []byte {
	b = putU(putDestination(b, c.To), uint64(len(c.Places)))
	for _, p := range c.Places {
		b = putU(putU(b, p.Order), p.Return)
	}
	return b
}

// putMsgIDRanges writes ranges in their order, each as its first id and its length less one.
func putMsgIDRanges(b []byte, rs []MsgIDRange) []byte {
	b = putU(b, uint64(len(rs)))
	for _, r := range rs {
		b = putU(putU(b, uint64(r.First)), uint64(r.Last-r.First))
	}
	return b
}
