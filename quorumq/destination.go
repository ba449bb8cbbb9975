package quorumq

// DestinationKind says where a Move sends messages.
type DestinationKind uint8

// The kinds are stored; numbers are never reused.
const (
	// ToNowhere takes messages off the queue for good: nothing dead-letters them.
	ToNowhere DestinationKind = iota
	// ToQueue: the queue Name of the same vhost.
	ToQueue
	// ToExchange: the exchange Name, with Key if HasKey, else with the message's own keys.
	ToExchange
	// ToOrigin: the queue that the message died in first.
	ToOrigin
	// ToOriginExchange: the exchange that the message came through before it died first, with
	// the keys that it had then.
	ToOriginExchange
)

// String returns a word for logs.
func (k DestinationKind) String() string {
	words := [...]string{"nowhere", "queue", "exchange", "origin", "origin exchange"}
	if int(k) < len(words) {
		return words[k]
	}
	return "unknown"
}

// Destination is where a Move sends messages.
type Destination struct {
	Kind   DestinationKind
	Name   string // of the queue or exchange
	Key    string // with HasKey
	HasKey bool
}

// Place is where a ready message stands. It names the message as long as it stays there;
// no other one ever has the same.
type Place struct {
	Order  uint64 // number of the message, above its priority level's 5 bits
	Return uint64 // number of its latest return; 0: none
}

// Number returns the message's number: they rise in the order in which the queue took its
// messages.
func (p Place) Number() uint64 { return p.Order >> ordBits }

// putDestination writes what reader.destination takes.
func putDestination(b []byte, d Destination) []byte {
	b = putText(append(b, byte(d.Kind)), d.Name)
	if b = putBool(b, d.HasKey); d.HasKey {
		b = putText(b, d.Key)
	}
	return b
}

// destination takes one, in the one form that each has.
func (r *reader) destination() Destination {
	d := Destination{Kind: DestinationKind(r.upTo(uint64(ToOriginExchange))), Name: r.text()}
	if d.HasKey = r.bool(); d.HasKey {
		d.Key = r.text()
	}
	named := d.Kind == ToQueue || d.Kind == ToExchange
	r.check((named || d.Name == "") && (d.Kind == ToExchange || !d.HasKey), errRange)
	return d
}
