package quorumq

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/quorate/quorate/id"
)

// TestScripts runs testdata/*.txt: commands go in, replies, effects and state come out. Each
// command passes through its stored form and is applied to three queues: two that run through, and
// one that is restored from its snapshot before each command. All must answer alike and have equal
// bytes.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := &script{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			return s.run(d)
		})
	})
}

type script struct {
	t                  *testing.T
	one, two, restored *Queue
	index              uint64
	now                Time
	decoder            Decoder
}

func (s *script) run(d *datadriven.TestData) string {
	switch d.Cmd {
	case "new":
		c := DefaultConfig()
		configArgs(d, &c)
		s.one, s.two, s.restored = New(1024, c), New(1024, c), New(1024, c)
		s.index, s.now = 0, 0
		return ""
	case "show":
		return show(s.one)
	case "held":
		return formatLines("", s.one.Assigned(nil, consumerArg(d), MsgID(intArg(d, "after", 0))))
	case "backlog":
		var b strings.Builder
		for _, x := range s.one.Backlog(nil, Seq(intArg(d, "after", 0)), int(intArg(d, "limit", 100))) {
			b.WriteString(formatDiscarded("backlog", x))
		}
		fmt.Fprintf(&b, "settled up to %d\n", s.one.BacklogSettled())
		return b.String()
	case "peek":
		from := PeekFrom{Part: partArg(d), Skip: uint64(intArg(d, "skip", 0)), Number: uint64(intArg(d, "number", 0))}
		return formatPeeked(peekAll(s.one, from, int(intArg(d, "page", 3))))
	case "save":
		return formatSaved(s.one)
	case "restore":
		return s.apply(d)
	case "live":
		var refs []string
		for r := range s.one.Live() {
			refs = append(refs, ref(r))
		}
		return fmt.Sprintf("%d: %s\n", len(refs), strings.Join(refs, " "))
	default:
		return s.apply(d)
	}
}

func (s *script) apply(d *datadriven.TestData) string {
	c := parseCommand(d)
	s.index++
	if d.HasArg("now") {
		s.now = Time(intArg(d, "now", 0))
	}
	m := Meta{Index: s.index, Now: s.now}
	stored := AppendCommand(nil, c)
	decoded, err := s.decoder.Decode(stored)
	if err != nil {
		s.t.Fatalf("%s: %v", d.Pos, err)
	}
	if again := AppendCommand(nil, decoded); !bytes.Equal(stored, again) {
		s.t.Fatalf("%s: stored form changes from %x to %x", d.Pos, stored, again)
	}
	out := answer(s.one.Apply(m, decoded))
	if got := answer(s.two.Apply(m, c)); got != out {
		s.t.Fatalf("%s: applied twice:\n%s\nand\n%s", d.Pos, out, got)
	}
	s.restored = restoreCopy(s.t, s.restored)
	if got := answer(s.restored.Apply(m, c)); got != out {
		s.t.Fatalf("%s: restored queue answers\n%s\ninstead of\n%s", d.Pos, got, out)
	}
	want := s.one.AppendSnapshot(nil)
	for _, q := range []*Queue{s.two, s.restored} {
		if got := q.AppendSnapshot(nil); !bytes.Equal(got, want) {
			s.t.Fatalf("%s: snapshots differ:\n%x\n%x", d.Pos, got, want)
		}
	}
	if err := s.one.check(); err != nil {
		s.t.Fatalf("%s: %v", d.Pos, err)
	}
	return out
}

// restoreCopy restores a queue from its own snapshot.
func restoreCopy(t *testing.T, q *Queue) *Queue {
	t.Helper()
	r, err := Restore(q.AppendSnapshot(nil))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func parseCommand(d *datadriven.TestData) Command {
	switch d.Cmd {
	case "enqueue":
		n := sessionArg(d, "from", "n1.1.0")
		return &Enqueue{
			Enqueuer: EnqueuerKey{Node: n.Node, Epoch: n.Epoch},
			First:    Seq(intArg(d, "first", 1)),
			Answered: Seq(intArg(d, "answered", 0)),
			Messages: messageLines(d),
		}
	case "transfer":
		c := &Transfer{Source: id.QueueUID(intArg(d, "source", 2000)), Settled: Seq(intArg(d, "settled", 0))}
		for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
			seq, rest, _ := strings.Cut(line, " ")
			if line == "" {
				continue
			}
			n, err := strconv.ParseUint(seq, 10, 64)
			if err != nil {
				panic(fmt.Sprintf("%s: %v", d.Pos, err))
			}
			c.DeadLetters = append(c.DeadLetters, DeadLetter{Seq: Seq(n), NewMessage: messageLine(d, rest)[0]})
		}
		return c
	case "checkout":
		return &Checkout{
			Consumer:   consumerArg(d),
			Prefetch:   uint32(intArg(d, "prefetch", 0)),
			Credit:     d.HasArg("credit"),
			Limit:      MsgID(intArg(d, "credit", 0)),
			AutoAck:    d.HasArg("auto-ack"),
			Priority:   int32(intArg(d, "priority", 0)),
			Exclusive:  d.HasArg("exclusive"),
			HasTimeout: d.HasArg("timeout"), TimeoutMs: intArg(d, "timeout", 0),
		}
	case "cancel":
		return &Cancel{Consumer: consumerArg(d), Requeue: d.HasArg("requeue")}
	case "credit":
		return &Credit{Consumer: consumerArg(d), Limit: MsgID(intArg(d, "limit", 0))}
	case "settle":
		return &Settle{Consumer: consumerArg(d), Ranges: rangesArg[MsgIDRange, MsgID](d)}
	case "return":
		return &Requeue{Consumer: consumerArg(d), Ranges: rangesArg[MsgIDRange, MsgID](d), Failed: d.HasArg("failed"), HasAnnotations: d.HasArg("annotations"), Delay: Delay{At: Time(intArg(d, "at", 0)), Ms: intArg(d, "delay", 0)}}
	case "discard":
		return &Discard{Consumer: consumerArg(d), Ranges: rangesArg[MsgIDRange, MsgID](d), Failed: d.HasArg("failed"), HasAnnotations: d.HasArg("annotations")}
	case "get":
		return &Get{Session: sessionArg(d, "session", "n1.1.1"), AutoAck: d.HasArg("auto-ack")}
	case "move":
		return moveArg(d)
	case "transact":
		c := &Transact{Consumer: consumerArg(d), Ranges: rangesArg[MsgIDRange, MsgID](d)}
		for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
			exchange, size, ok := strings.Cut(line, " ")
			if n, err := strconv.Atoi(size); ok && err == nil {
				c.Outputs = append(c.Outputs, Output{Exchange: strings.Trim(exchange, "-"), Size: uint32(n)})
			}
		}
		return c
	case "expire":
		return &Expire{}
	case "purge":
		return &Purge{}
	case "configure":
		c := DefaultConfig()
		configArgs(d, &c)
		return &Configure{Config: c}
	case "backlog-settle":
		return &BacklogSettle{Ranges: rangesArg[SeqRange, Seq](d)}
	case "session-closed":
		c := &SessionClosed{Session: sessionArg(d, "session", "n1.1.1")}
		if d.HasArg("ids") {
			c.Unsent = Unsent{Tag: uint32(intArg(d, "unsent", 1)), Ranges: rangesArg[MsgIDRange, MsgID](d)}
		}
		return c
	case "node-down":
		n := sessionArg(d, "node", "n1.1.0")
		return &NodeDown{Node: n.Node, Epoch: n.Epoch}
	case "node-up":
		n := sessionArg(d, "node", "n1.1.0")
		return &NodeUp{Node: n.Node, Epoch: n.Epoch}
	case "extend":
		return &Extend{Consumer: consumerArg(d), TimeoutMs: intArg(d, "timeout", 1), Ranges: rangesArg[MsgIDRange, MsgID](d)}
	case "retry-delayed":
		return &RetryDelayed{Limit: uint64(intArg(d, "limit", 0))}
	case "renew":
		return &Renew{}
	case "drain-delete":
		return &DrainDelete{}
	case "seal":
		return &Seal{IfUnused: d.HasArg("if-unused"), IfExpired: d.HasArg("if-expired")}
	case "forget-sources":
		c := &ForgetSources{}
		for _, r := range rangesArg[SeqRange, Seq](d) {
			for uid := r.First; uid <= r.Last; uid++ {
				c.Sources = append(c.Sources, id.QueueUID(uid))
			}
		}
		return c
	case "renumber":
		return &Renumber{}
	case "lead":
		return &Lead{Node: "n1", Term: uint64(intArg(d, "term", 1))}
	default:
		panic(fmt.Sprintf("%s: unknown command %q", d.Pos, d.Cmd))
	}
}

func configArgs(d *datadriven.TestData, c *Config) {
	c.MaxLength = intArg(d, "max-length", c.MaxLength)
	c.MaxLengthBytes = intArg(d, "max-length-bytes", c.MaxLengthBytes)
	c.MessageTTLMs = intArg(d, "ttl", c.MessageTTLMs)
	c.DeliveryLimit = intArg(d, "delivery-limit", c.DeliveryLimit)
	c.DisconnectedTimeoutMs = intArg(d, "disconnected-timeout", c.DisconnectedTimeoutMs)
	c.ExpiresMs, c.ExpiresIfEmpty = intArg(d, "expires", c.ExpiresMs), d.HasArg("if-empty")
	c.ConsumerTimeoutMs = intArg(d, "timeout", c.ConsumerTimeoutMs)
	c.SingleActive, c.AutoDelete = d.HasArg("single-active"), d.HasArg("auto-delete")
	c.MaxLengthTotal = intArg(d, "max-length-total", c.MaxLengthTotal)
	c.FairPriorities, c.ReturnToPlace = d.HasArg("fair"), d.HasArg("to-place")
	c.Victim = map[string]Victim{
		"": VictimHead, "lowest": VictimLowestPriority, "oldest": VictimOldest,
	}[textArg(d, "victim", "")]
	c.Retry = Retry{
		Type: map[string]RetryType{
			"": RetryDisabled, "all": RetryAll, "failed": RetryFailed, "returned": RetryReturned,
		}[textArg(d, "retry", "")],
		Backoff:       map[string]Backoff{"": BackoffLinear, "exponential": BackoffExponential}[textArg(d, "backoff", "")],
		JitterPercent: uint8(intArg(d, "jitter", 0)),
		MinMs:         intArg(d, "retry-min", 0), MaxMs: intArg(d, "retry-max", 0),
	}
	for _, a := range d.CmdArgs {
		if a.Key == "steps" {
			c.Retry.Backoff = BackoffSteps
			for i, v := range a.Vals {
				c.Retry.StepsMs[i], _ = strconv.ParseInt(v, 10, 64)
				c.Retry.Steps++
			}
		}
	}
	c.Rules = Rules(intArg(d, "rules", int64(c.Rules)))
	c.BacklogLimit = intArg(d, "backlog-limit", 0)
	c.OnSwitch = map[string]OnSwitch{"": SwitchUnset, "drain": SwitchDrain, "drop": SwitchDrop}[textArg(d, "on-switch", "")]
	if d.HasArg("overflow") {
		c.Overflow = map[string]Overflow{
			"drop-head": OverflowDropHead, "reject": OverflowRejectPublish, "reject-dlx": OverflowRejectPublishDLX,
		}[textArg(d, "overflow", "")]
	}
	if d.HasArg("dead-letter") {
		c.DeadLetter = map[string]DeadLetterMode{
			"off": DeadLetterDisabled, "once": DeadLetterAtMostOnce, "safe": DeadLetterAtLeastOnce,
		}[textArg(d, "dead-letter", "")]
	}
}

// messageLines reads lines like "10", "10 ttl=300 prio=7 x5" or "void".
func messageLines(d *datadriven.TestData) []NewMessage {
	var ms []NewMessage
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		if line != "" {
			ms = append(ms, messageLine(d, line)...)
		}
	}
	return ms
}

func messageLine(d *datadriven.TestData, line string) []NewMessage {
	m, times := NewMessage{TTLMs: Unlimited, Priority: DefaultPriority}, 1
	for i, word := range strings.Fields(line) {
		name, value, _ := strings.Cut(word, "=")
		number := value
		switch {
		case word == "void":
			m.Size = VoidSize
			continue
		case word == "joined":
			m.Joined = true
			continue
		case i == 0:
			number = word
		case word[0] == 'x':
			number, name = word[1:], "x"
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			panic(fmt.Sprintf("%s: %q: %v", d.Pos, word, err))
		}
		switch {
		case i == 0:
			m.Size = uint32(n)
		case name == "ttl":
			m.TTLMs = n
		case name == "at":
			m.At = Time(n)
		case name == "delay":
			m.Ms = n
		case name == "prio":
			m.Priority = uint8(n)
		case name == "producer":
			m.Producer = &ProducerID{byte(n)}
		case name == "number":
			m.ProducerSeq = uint64(n)
		case pastWord(&m, name, n):
		case name == "x":
			times = int(n)
		}
	}
	ms := make([]NewMessage, times)
	for i := range ms {
		ms[i] = m
	}
	return ms
}

func textArg(d *datadriven.TestData, name, unset string) string {
	for _, a := range d.CmdArgs {
		if a.Key == name && len(a.Vals) > 0 {
			return a.Vals[0]
		}
	}
	return unset
}

func intArg(d *datadriven.TestData, name string, unset int64) int64 {
	text := textArg(d, name, strconv.FormatInt(unset, 10))
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", d.Pos, err))
	}
	return n
}

// sessionArg reads node.epoch.session. Epoch and session are optional.
func sessionArg(d *datadriven.TestData, name, unset string) SessionKey {
	return parseSession(textArg(d, name, unset))
}

func parseSession(text string) SessionKey {
	parts := append(strings.Split(text, "."), "1", "1")
	epoch, _ := strconv.ParseUint(parts[1], 10, 64)
	session, _ := strconv.ParseUint(parts[2], 10, 64)
	if strings.Count(text, ".") == 1 {
		session = 1
	}
	return SessionKey{Node: id.NodeID(parts[0]), Epoch: id.Epoch(epoch), Session: session}
}

// consumerArg reads node.epoch.session:tag.
func consumerArg(d *datadriven.TestData) ConsumerKey {
	session, tag, ok := strings.Cut(textArg(d, "c", "n1.1.1:1"), ":")
	if !ok {
		tag = "1"
	}
	n, _ := strconv.ParseUint(tag, 10, 32)
	return ConsumerKey{SessionKey: parseSession(session), Tag: uint32(n)}
}

// rangesArg reads ids=(1-3,5).
func rangesArg[R ~struct{ First, Last N }, N MsgID | Seq](d *datadriven.TestData) []R {
	var rs []R
	for _, a := range d.CmdArgs {
		if a.Key != "ids" {
			continue
		}
		for _, v := range a.Vals {
			first, last, ok := strings.Cut(v, "-")
			if !ok {
				last = first
			}
			f, _ := strconv.ParseUint(first, 10, 64)
			l, _ := strconv.ParseUint(last, 10, 64)
			rs = append(rs, R{First: N(f), Last: N(l)})
		}
	}
	return rs
}
