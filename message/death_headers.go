package message

import (
	"math"
	"strconv"
)

// Header names that the broker makes from the deaths (DL-32, DL-34, DL-38).
const (
	headerDeaths            = "x-death"
	headerFirstQueue        = "x-first-death-queue"
	headerFirstReason       = "x-first-death-reason"
	headerFirstExchange     = "x-first-death-exchange"
	headerLastQueue         = "x-last-death-queue"
	headerLastReason        = "x-last-death-reason"
	headerLastExchange      = "x-last-death-exchange"
	headerLastDeliveryCount = "x-last-death-delivery-count"
	headerLastAcquiredCount = "x-last-death-acquired-count"
	headerDeathCount        = "x-death-count"
)

// MaxDeathCount is the highest count of deaths: clients get it as a signed integer of 64 bits. Counts
// stay there, also where headers of a client's bring more (G-11).
const MaxDeathCount = math.MaxInt64

// AddDeaths adds to a count of deaths, up to MaxDeathCount.
func AddDeaths(n, more uint64) uint64 {
	if n >= MaxDeathCount || more > MaxDeathCount-n {
		return MaxDeathCount
	}
	return n + more
}

// CountDeaths counts how often a message with these deaths has died, up to MaxDeathCount.
func CountDeaths(deaths []Death) (n uint64) {
	for i := range deaths {
		n = AddDeaths(n, deaths[i].Count)
	}
	return n
}

// DeathHeaderNames returns the names of all headers that DeathHeaders can make. A client's
// own headers of these names go when the broker records the first death (DL-32, MSG-6).
func DeathHeaderNames() []string {
	return []string{
		headerDeaths,
		headerFirstQueue, headerFirstReason, headerFirstExchange,
		headerLastQueue, headerLastReason, headerLastExchange,
		headerLastDeliveryCount, headerLastAcquiredCount, headerDeathCount,
	}
}

// DeathHeaders makes the AMQP 0-9-1 headers that describe a message's deaths: x-death, newest
// first (DL-32), the first and last death (DL-34), the counts at the last one (DL-38) and how
// often it has died in all (G-11).
// It returns nil for a message that never died. Delivered headers are
// m.Headers.Merged(DeathHeaders(m)); routing of a dead letter sees the same (EX-10).
func DeathHeaders(m *Message) Table {
	if len(m.Deaths) == 0 {
		return nil
	}
	entries := make([]Value, len(m.Deaths))
	for i := range m.Deaths {
		entries[i] = TableValue(deathTable(&m.Deaths[i]))
	}
	last := &m.Deaths[0]
	return Table{
		{headerDeaths, Array(entries...)},
		{headerFirstQueue, String(m.FirstDeath.Queue)},
		{headerFirstReason, String(m.FirstDeath.Reason)},
		{headerFirstExchange, String(m.FirstDeath.Exchange)},
		{headerLastQueue, String(m.LastDeath.Queue)},
		{headerLastReason, String(m.LastDeath.Reason)},
		{headerLastExchange, String(m.LastDeath.Exchange)},
		{headerLastDeliveryCount, Int64(int64(last.DeliveryCount))},
		{headerLastAcquiredCount, Int64(int64(last.AcquiredCount))},
		{headerDeathCount, Int64(int64(CountDeaths(m.Deaths)))},
	}
}

// deathTable is one element of x-death, its fields in RabbitMQ's order; time is that of the
// first death, in seconds.
func deathTable(d *Death) Table {
	keys := make([]Value, len(d.RoutingKeys))
	for i, k := range d.RoutingKeys {
		keys[i] = String(k)
	}
	t := make(Table, 0, 7)
	if d.HasTTL {
		t = append(t, Field{"original-expiration", String(strconv.FormatInt(d.TTLMs, 10))})
	}
	return append(t,
		Field{"count", Int64(int64(min(d.Count, MaxDeathCount)))},
		Field{"reason", String(d.Reason)},
		Field{"queue", String(d.Queue)},
		Field{"time", Timestamp(uint64(max(d.FirstTimeMs, 0)) / 1000)},
		Field{"exchange", String(d.Exchange)},
		Field{"routing-keys", Array(keys...)},
	)
}
