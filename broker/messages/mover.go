package messages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/operators"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/leader"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/internal/wait"
	"github.com/quorate/quorate/quorumq"
)

// Bounds of a mover.
const (
	maxMoveBatch = 512 // messages of one command
	// maxMoving limits the moved messages that have not arrived. If the target takes none, all others stay in the
	// queue.
	maxMoving = 1024
	// movePoll is the interval at which the mover asks how many have not arrived.
	movePoll = 50 * time.Millisecond
	// maxReasons limits how many reasons why messages stay are named.
	maxReasons = 5
)

// The phases of an operation on chosen messages.
const (
	phaseChoose = "choose" // examines messages and takes the chosen ones
	phaseArrive = "arrive" // waits until the messages that were taken have arrived
)

// Job has the limits of an operation on ready messages, and chooses the messages.
type Job struct {
	VHost, Queue string
	Filter       Filter
	Limit        uint64 // messages; 0: all that are there when it begins
	Rate         uint32 // messages per second; 0: no limit
	DryRun       bool   // only count the messages, and show some
}

// mover carries out one operation on chosen messages (G-13). Nothing is lost with it: the messages that it has taken
// are in the queue's backlog, and a mover that starts again finds the others. It belongs to one goroutine.
type mover struct {
	c     *cluster.Cluster
	q     *gateway.Queue
	vhost string
	job   Job
	to    quorumq.Destination
	about failure.Error
	// may fails if the caller may not publish to an exchange, mayBy if it may not do so by one of the keys.
	may   func(*catalog.Exchange) error
	mayBy func(v *catalog.View, x *catalog.Exchange, keys []string) error

	origins map[string]error // results of may, by exchange
	plan    operators.Plan
	looked  uint64
	total   uint64 // ready messages when it began
	taken   uint64
	skipped map[string]uint64 // chosen messages that stay, by the reason
	began   time.Time
}

// run goes through the queue page by page, from its head to its end, and takes the chosen messages. Messages that
// arrive meanwhile may be among them.
func (m *mover) run(ctx context.Context, report func(operation.Progress)) error {
	s, err := m.c.Leaders().Status(ctx, m.q.UID())
	if err != nil {
		return err
	}
	m.total, m.began, m.skipped = s.Overview.Ready, time.Now(), make(map[string]uint64)
	ask := leader.Peek{Limit: maxMoveBatch, Filter: m.job.Filter.Filter, Numbers: m.job.Filter.Numbers, Detail: m.detail()}
	for more := true; more && m.left() > 0; {
		m.report(report, "")
		ask.Limit = int(min(m.left(), m.batch()))
		page, err := m.c.Leaders().Peek(ctx, m.q.UID(), ask)
		if err != nil {
			return err
		}
		m.looked += uint64(page.Looked)
		ask.From, more = page.Next, page.More
		if err := m.take(ctx, page.Messages, report); err != nil {
			return err
		}
	}
	m.report(report, "")
	if m.job.DryRun || m.to.Kind == quorumq.ToNowhere {
		return nil
	}
	return m.arrive(ctx, 0, report)
}

// detail asks the leader for as little of each message as the target needs. It never asks for bodies.
func (m *mover) detail() leader.Detail {
	switch {
	case m.job.DryRun, m.to.Kind == quorumq.ToExchange, m.to.Kind == quorumq.ToOriginExchange:
		return leader.PeekHeads // keys and headers decide where a message goes
	case m.to.Kind == quorumq.ToOrigin:
		return leader.PeekOrigin
	}
	return leader.PeekPlaces
}

// left returns how many more messages may be taken. Without a limit that is always a full batch.
func (m *mover) left() uint64 {
	taken := m.taken + uint64(m.plan.Total)
	if m.job.Limit == 0 {
		return maxMoveBatch
	}
	return m.job.Limit - min(taken, m.job.Limit)
}

// batch returns the size of one command. With a rate it is a tenth of a second's worth, so that messages move steadily.
func (m *mover) batch() uint64 {
	if m.job.Rate == 0 || m.job.DryRun {
		return maxMoveBatch
	}
	return min(max(uint64(m.job.Rate)/10, 1), maxMoveBatch)
}

// take moves the chosen messages of a page, no faster than the rate allows.
func (m *mover) take(ctx context.Context, page []leader.Peeked, report func(operation.Progress)) error {
	places := make([]quorumq.Place, 0, len(page))
	for i := range page {
		p := &page[i]
		if why, err := m.stays(p); err != nil {
			return err
		} else if why != "" {
			m.skipped[why]++
			continue
		}
		if m.job.DryRun {
			m.sample(p)
			continue
		}
		places = append(places, p.Place)
	}
	if len(places) == 0 {
		return nil
	}
	if m.to.Kind != quorumq.ToNowhere {
		if err := m.arrive(ctx, maxMoving-maxMoveBatch, report); err != nil {
			return err
		}
	}
	n, err := m.q.Move(ctx, &quorumq.Move{To: m.to, Places: places})
	if m.taken += n; err != nil || m.job.Rate == 0 {
		return err
	}
	due := m.began.Add(time.Duration(float64(m.taken) / float64(m.job.Rate) * float64(time.Second)))
	return wait.For(ctx, time.Until(due))
}

// stays returns why a chosen message cannot be moved, "" if it can.
func (m *mover) stays(p *leader.Peeked) (string, error) {
	v := m.c.View()
	switch m.to.Kind {
	case quorumq.ToOrigin:
		if q, ok := v.Queue(m.vhost, p.OriginQueue); !ok || q.DrainDeleting > 0 {
			return fmt.Sprintf("queue %q does not exist", p.OriginQueue), nil
		}
	case quorumq.ToOriginExchange:
		return m.staysAtOrigin(v, p)
	case quorumq.ToExchange:
		way, err := wayOf(v, m.c.DeadLetterRouter(), m.q.UID(), m.to, p)
		return unroutable(&way, m.to.Name), err
	default:
	}
	return "", nil
}

// staysAtOrigin is stays for a redrive through the exchange of the first death. It fails if the caller may not publish to
// the exchange by the keys that the message had then, as for a move through an exchange.
func (m *mover) staysAtOrigin(v *catalog.View, p *leader.Peeked) (string, error) {
	x, ok := v.Exchange(m.vhost, p.OriginExchange)
	if !ok {
		return fmt.Sprintf("exchange %q does not exist", p.OriginExchange), nil
	}
	err, known := m.origins[x.Name]
	if !known {
		err = m.may(x)
		m.origins[x.Name] = err
	}
	if err != nil {
		return "", err
	}
	way, err := wayOf(v, m.c.DeadLetterRouter(), m.q.UID(), m.to, p)
	if err != nil {
		return "", err
	}
	if why := unroutable(&way, x.Name); why != "" {
		return why, nil
	}
	return "", m.mayBy(v, x, way.Message.RoutingKeys)
}

// sample adds a message that would be taken to the plan.
func (m *mover) sample(p *leader.Peeked) {
	line := fmt.Sprintf("message %d, %d bytes", p.Number, p.Size)
	if d, err := p.Decode(); err == nil && d.MessageID != "" {
		line += fmt.Sprintf(", id %q", d.MessageID)
	}
	switch m.to.Kind {
	case quorumq.ToNowhere:
		line += ": deleted"
	case quorumq.ToOrigin:
		line += fmt.Sprintf(": to queue %q", p.OriginQueue)
	case quorumq.ToOriginExchange:
		line += fmt.Sprintf(": to exchange %q", p.OriginExchange)
	default:
		line += ": to " + DestinationText(&m.to)
	}
	m.plan.Add("%s", line)
}

// arrive waits until at most this many of the moved messages are still on their way.
func (m *mover) arrive(ctx context.Context, most uint64, report func(operation.Progress)) error {
	for {
		s, err := m.c.Leaders().Status(ctx, m.q.UID())
		switch {
		case errors.Is(err, traffic.ErrUnavailable) && ctx.Err() == nil:
			m.report(report, err.Error())
		case err != nil:
			return err
		case most > 0:
			m.report(report, s.BacklogTrouble)
		default:
			report(operation.Progress{
				Phase: phaseArrive, Done: int64(m.taken - min(m.taken, s.Overview.Moving)), Total: int64(m.taken), Unit: "messages",
				Detail: cmp.Or(s.BacklogTrouble, strings.TrimPrefix(m.staying(), "; ")),
			})
		}
		if err == nil && s.Overview.Moving <= most {
			return nil
		}
		if err := wait.For(ctx, movePoll); err != nil {
			return err
		}
	}
}

// report reports the progress of the choice of messages.
func (m *mover) report(report func(operation.Progress), trouble string) {
	detail := fmt.Sprintf("%d taken", m.taken) + m.staying()
	if trouble != "" {
		detail += "; " + trouble
	}
	report(operation.Progress{
		Phase: phaseChoose, Done: int64(min(m.looked, m.total)), Total: int64(m.total), Unit: "messages looked at", Detail: detail,
	})
}

// staying lists the reasons why chosen messages cannot be moved, as part of a progress report.
func (m *mover) staying() (detail string) {
	for i, why := range slices.Sorted(maps.Keys(m.skipped)) {
		if i == maxReasons {
			detail += fmt.Sprintf("; others stay for %d other reasons", len(m.skipped)-i)
			break
		}
		detail += fmt.Sprintf("; %d stay: %s", m.skipped[why], why)
	}
	return detail
}
