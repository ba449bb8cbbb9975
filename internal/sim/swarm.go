package sim

import (
	"math/rand/v2"

	"github.com/quorate/quorate/quorumq"
)

// swarm is what a seed decides for its whole run: which faults there are and how often,
// how large things are.
type swarm struct {
	crash, breaks, elect, restore, topology, purge, suspect, configure, void, switches int // weights of 10,000 steps

	carry, commits, follow, closes int // weights of work that may be slow, or of clients that go

	skew       int64 // leaders' clocks differ by up to so many ms
	maxTick    int64 // a step takes up to so many ms
	queues     [3]quorumq.Config
	ttl        int64 // of some messages, ms; Unlimited: none
	fanout     bool  // dead letters of a go to b and c
	cycle      bool  // dead letters of c go to a
	producers  int
	plain      int // producers without id
	consumers  int // per queue
	window     int
	prefetch   uint32
	autoAck    bool
	credit     bool
	gets       bool
	batch      int
	delays     bool // clients ask for some
	forwarding int  // dead letters that a forwarder has in its window
	static     bool

	moves, extends int  // weights: of operators that move messages, of clients that ask for more time
	own            bool // some consumers have timeouts of their own

	// What seeds of the past did not have.
	repeats     bool // operators send a Move until it is answered
	transacts   int  // of 10 decisions, how many are transactions
	rules       bool // there are policies about dead letters
	ruleChanges int  // weight
	allow       bool // messages may go round
	hops        [3]uint64

	clocks           bool // nodes compare wall clocks that are set and drift; else clocks differ by skew
	clockSets, rests int  // weights

	lags   bool // views of the catalog are old after a start, or without a majority
	proofs int  // weight
}

// rate draws how often a fault happens: never, rarely or often.
func rate(r *rand.Rand, most int) int {
	if r.IntN(4) == 0 {
		return 0
	}
	return 1 + r.IntN(most)
}

// drawSwarm draws how often each act comes: a swarm has some acts often and others never. What it draws,
// and in which order, decides what a seed means.
func drawSwarm(r *rand.Rand) swarm {
	s := swarm{
		crash: rate(r, 25), breaks: rate(r, 100), elect: rate(r, 60), restore: rate(r, 100), topology: rate(r, 30),
		purge: rate(r, 10), suspect: rate(r, 20), configure: rate(r, 20), void: rate(r, 20), switches: rate(r, 60),
		carry: 600 + r.IntN(2600), commits: 300 + r.IntN(1300), follow: 100 + r.IntN(800), closes: 10 + r.IntN(150),
		skew: r.Int64N(400), maxTick: 1 + r.Int64N(12), ttl: quorumq.Unlimited,
		fanout: r.IntN(3) == 0, cycle: r.IntN(5) == 0,
		producers: 1 + r.IntN(3), plain: r.IntN(2), consumers: 1 + r.IntN(3),
		window: 5 + r.IntN(40), prefetch: uint32(1 + r.IntN(20)), autoAck: r.IntN(5) == 0, credit: r.IntN(3) == 0, gets: r.IntN(3) == 0,
		batch: 1 + r.IntN(12), forwarding: 1 + r.IntN(16),
	}
	if r.IntN(3) == 0 {
		s.ttl = 1 + r.Int64N(3000)
	}
	s.delays = r.IntN(3) == 0
	if r.IntN(6) == 0 { // leaders that do not last
		s.elect, s.carry = 100+r.IntN(500), 300+r.IntN(900)
	}
	s.static = s.topology == 0
	s.moves, s.extends, s.own = rate(r, 60), rate(r, 100), r.IntN(3) == 0
	for i := range s.queues {
		s.queues[i] = drawQueue(r, i, s.cycle)
	}
	if r.IntN(4) == 0 { // one consumer at a time, and no Get (SAC-1, DEL-5)
		s.gets = false
		for i := range s.queues {
			s.queues[i].SingleActive = true
		}
	}
	return s
}

// drawMore draws what came later, from chance of its own.
func (s *swarm) drawMore(r *rand.Rand) {
	s.repeats = r.IntN(2) == 0
	if r.IntN(3) > 0 {
		s.transacts = 1 + r.IntN(4)
		if r.IntN(2) == 0 { // clients that get further
			s.carry, s.commits, s.closes = s.carry+2500, s.commits+1000, s.closes/4
		}
	}
	if s.rules = r.IntN(2) == 0; !s.rules {
		return
	}
	s.static, s.ruleChanges, s.allow = false, rate(r, 40), r.IntN(3) == 0
	for i := range s.hops {
		if s.allow || r.IntN(3) == 0 { // what goes round must end
			s.hops[i] = 1 + r.Uint64N(6)
		}
	}
}

// drawClocks draws the behaviour of the machines' clocks.
func (s *swarm) drawClocks(r *rand.Rand) {
	if s.clocks = r.IntN(2) == 0; s.clocks {
		s.clockSets, s.rests = rate(r, 60), rate(r, 4)
	}
}

// drawViews draws how nodes keep up with the catalog.
func (s *swarm) drawViews(r *rand.Rand) {
	if s.lags = r.IntN(2) == 0; s.lags {
		s.proofs = 20 + r.IntN(300)
	}
}

// stressViews makes sure that they are old often.
func (s *swarm) stressViews() {
	s.lags, s.proofs, s.static = true, 40, false
	s.topology, s.crash, s.breaks = 60, 25, 100
}

// stressClocks makes sure that they are wrong often.
func (s *swarm) stressClocks() { s.clocks, s.clockSets, s.rests = true, 60, 4 }

// drawQueue draws the configuration of a queue: the last one of the chain has no
// dead letters unless they go round.
func drawQueue(r *rand.Rand, place int, cycle bool) quorumq.Config {
	c := quorumq.DefaultConfig()
	c.DeliveryLimit = int64(r.IntN(5)) - 1
	c.DisconnectedTimeoutMs = r.Int64N(2000)
	switch r.IntN(4) {
	case 0:
		c.DeadLetter = quorumq.DeadLetterAtMostOnce
	default:
		c.DeadLetter = quorumq.DeadLetterAtLeastOnce
		c.Overflow = quorumq.OverflowRejectPublish + quorumq.Overflow(r.IntN(2))
	}
	if place == 2 && !cycle {
		c.DeadLetter = quorumq.DeadLetterDisabled
	}
	if r.IntN(3) == 0 {
		c.MaxLength = int64(2 + r.IntN(30))
	}
	if r.IntN(3) == 0 {
		c.Retry = quorumq.Retry{Type: quorumq.RetryAll + quorumq.RetryType(r.IntN(3)), MinMs: 1 + r.Int64N(500), MaxMs: 500 + r.Int64N(1500)}
	}
	if r.IntN(5) == 0 {
		c.MaxLengthBytes = int64(60 + r.IntN(900))
	}
	if r.IntN(3) == 0 && place < 2 {
		c.MessageTTLMs = 5 + r.Int64N(4000)
	}
	if r.IntN(3) == 0 {
		c.ConsumerTimeoutMs = 1 + r.Int64N(3000)
	}
	if r.IntN(6) == 0 {
		c.ExpiresMs, c.ExpiresIfEmpty = 1+r.Int64N(3000), r.IntN(2) == 0
	}
	if r.IntN(3) > 0 {
		c.Rules = quorumq.NewestRules
	}
	return c
}
