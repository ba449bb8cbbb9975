package quorumq

// DestinationKind is where a Move sends messages.
type DestinationKind uint8

// The kinds are stored; numbers are never reused.
const (
	// ToNowhere removes messages for good, without dead-lettering.
	ToNowhere DestinationKind = iota
	// ToQueue: the queue Name of the same vhost.
	ToQueue
	// ToExchange: the exchange Name, with Key if HasKey, else with the message's own keys.
	ToExchange
	// ToOrigin: the queue that the message died in first.
	ToOrigin
	// ToOriginExchange: the exchange that the message was published to before it first died, with
	// its keys at that time.
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

// Place is the position of a ready message. It identifies the message while it stays there, and is
// never reused.
type Place struct {
	Order  uint64 // number of the message, above its priority level's 5 bits
	Return uint64 // number of its latest return; 0: none
}

// Number returns the message's number: numbers increase in the order in which the queue stored its
// messages.
func (p Place) Number() uint64 { return p.Order >> ordBits }

// putDestination writes what reader.destination reads.
func putDestination(b []byte, d Destination) []byte {
	b = putText(append(b, byte(d.Kind)), d.Name)
	if b = putBool(b, d.HasKey); d.HasKey {
		b = putText(b, d.Key)
	}
	return b
}

// destination reads a destination. It accepts only the one form that each destination has.
func (r *reader) destination() Destination {
	d := Destination{Kind: DestinationKind(r.upTo(uint64(ToOriginExchange))), Name: r.text()}
	if d.HasKey = r.bool(); d.HasKey {
		d.Key = r.text()
	}
	named := d.Kind == ToQueue || d.Kind == ToExchange
	r.check((named || d.Name == "") && (d.Kind == ToExchange || !d.HasKey), errRange)
	return d
}
