package message

import "slices"

// ImportDeaths makes deaths of the headers that describe them, as DeathHeaders writes them, in
// a message that a client publishes anew (G-11): so its counts go on. The headers are taken
// off then. What cannot be read is left as it is, and nothing is made; false. The time of a
// latest death is not in the headers: that of the first stands for it.
func ImportDeaths(m *Message) bool {
	v, ok := m.Headers.Get(headerDeaths)
	if !ok {
		return false
	}
	list, ok := v.AsArray()
	if !ok || len(list) == 0 || len(list) > MaxDeaths {
		return false
	}
	deaths := make([]Death, len(list))
	for i := range list {
		t, isTable := list[i].AsTable()
		if !isTable || !deaths[i].fromTable(t) || slices.ContainsFunc(deaths[:i], deaths[i].same) {
			return false
		}
	}
	first, last := &deaths[len(deaths)-1], &deaths[0]
	m.Deaths = deaths
	m.FirstDeath = origin(m.Headers, headerFirstQueue, headerFirstReason, headerFirstExchange, first)
	m.LastDeath = origin(m.Headers, headerLastQueue, headerLastReason, headerLastExchange, last)
	last.DeliveryCount = count32(m.Headers, headerLastDeliveryCount)
	last.AcquiredCount = count32(m.Headers, headerLastAcquiredCount)
	m.Headers = m.Headers.Without(DeathHeaderNames()...)
	return true
}

// same reports whether two entries are of the same queue and reason, of which there is one.
func (d *Death) same(e Death) bool { return d.Queue == e.Queue && d.Reason == e.Reason }

// fromTable reads an element of x-death.
func (d *Death) fromTable(t Table) bool {
	text := func(name string) (string, bool) {
		v, _ := t.Get(name)
		s, ok := v.AsString()
		return s, ok && len(s) <= MaxNameBytes
	}
	var ok [3]bool
	d.Queue, ok[0] = text("queue")
	d.Reason, ok[1] = text("reason")
	d.Exchange, ok[2] = text("exchange")
	v, _ := t.Get("count")
	n, isCount := v.AsUint()
	isCount = isCount && v.IsInt()
	if ok != [3]bool{true, true, true} || !isCount || n < 1 || !slices.Contains([]string{"rejected", "expired", "maxlen", "delivery_limit", "queue_deleted"}, d.Reason) {
		return false
	}
	d.Count = min(n, MaxDeathCount)
	if v, has := t.Get("time"); has {
		seconds, isTime := v.AsUint()
		if !isTime || seconds > 1<<43 { // in milliseconds it must fit
			return false
		}
		d.FirstTimeMs = int64(seconds) * 1000
		d.LastTimeMs = d.FirstTimeMs
	}
	if v, has := t.Get("original-expiration"); has {
		s, _ := v.AsString()
		ms, err := ParseExpiration(s)
		if err != nil {
			return false
		}
		d.TTLMs, d.HasTTL = ms, true
	}
	v, _ = t.Get("routing-keys")
	keys, isArray := v.AsArray()
	if !isArray || len(keys) > MaxRoutingKeys {
		return false
	}
	for i := range keys {
		k, isString := keys[i].AsString()
		if !isString || len(k) > MaxNameBytes {
			return false
		}
		d.RoutingKeys = append(d.RoutingKeys, k)
	}
	return true
}

// origin reads three headers, or takes the values of the entry if one is not a name.
func origin(t Table, queue, reason, exchange string, d *Death) DeathOrigin {
	var out [3]string
	for i, name := range [...]string{queue, reason, exchange} {
		v, _ := t.Get(name)
		s, ok := v.AsString()
		if !ok || len(s) > MaxNameBytes {
			return DeathOrigin{Queue: d.Queue, Reason: d.Reason, Exchange: d.Exchange}
		}
		out[i] = s
	}
	return DeathOrigin{Queue: out[0], Reason: out[1], Exchange: out[2]}
}

// count32 cuts a number that a client sent to what a count can be; anything else is 0.
func count32(t Table, name string) uint32 {
	v, _ := t.Get(name)
	n, _ := v.AsInt()
	return uint32(min(max(n, 0), 1<<32-1))
}
