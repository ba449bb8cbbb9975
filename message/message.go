// Package message holds a message as the broker keeps it: AMQP properties, typed
// headers, the routing keys it was published with, the deaths it went through and
// its body, together with the byte form in which it is stored (docs/formats/message.md).
//
// The package only computes: no clock, no I/O, no goroutines. Times are milliseconds
// since the Unix epoch unless a name says seconds (C-1). Nothing here is safe for
// concurrent writes; a message that nobody changes may be read from many goroutines.
// Input errors are returned, never panics.
package message

import "slices"

// Message is one message as stored (MSG-1, MSG-7). State that belongs to one queue's
// copy (expiry, counts, enqueue index) is not here: the queue's machine holds it.
type Message struct {
	Properties
	// Headers is the user's header table, without BCC (MSG-8). Headers that the broker
	// makes from Deaths are not in it; see DeathHeaders.
	Headers Table
	// Exchange is the exchange of the publish, or of the last dead-lettering (DL-36).
	Exchange string
	// RoutingKeys holds the primary key first, then the CC keys, then the BCC keys.
	RoutingKeys []string
	// BCCCount is how many keys at the end of RoutingKeys came from BCC.
	BCCCount int
	// Deaths is the list of deaths, newest first, one entry per queue and reason (DL-30).
	Deaths []Death
	// FirstDeath is set at the first death and never changes; LastDeath is set at every
	// death (DL-34). Both are zero while Deaths is empty.
	FirstDeath, LastDeath DeathOrigin
	// Annotations are the x- annotations of returns and discards, merged.
	Annotations Table
	// Body is opaque.
	Body []byte
}

// PrimaryKey is the routing key that consumers see (MSG-9): the first of RoutingKeys, or "".
func (m *Message) PrimaryKey() string {
	if len(m.RoutingKeys) == 0 {
		return ""
	}
	return m.RoutingKeys[0]
}

// VisibleKeys returns the keys without the BCC ones. The result shares RoutingKeys.
func (m *Message) VisibleKeys() []string {
	n := max(len(m.RoutingKeys)-m.BCCCount, 0)
	return slices.Clip(m.RoutingKeys[:n])
}

// Presence is a set of properties that are present in a message.
type Presence uint16

// The properties of AMQP's basic class (MSG-1), in the order of the stored form.
const (
	HasContentType Presence = 1 << iota
	HasContentEncoding
	HasHeaders
	HasDeliveryMode
	HasPriority
	HasCorrelationID
	HasReplyTo
	HasExpiration
	HasMessageID
	HasTimestamp
	HasType
	HasUserID
	HasAppID

	allPresence = HasAppID<<1 - 1
)

// Properties are AMQP's basic properties except the headers (MSG-1). A property is
// present when its bit in Has is set or its value is not the zero value; so setting
// a value is enough, and Has serves to distinguish "present and empty" from "absent".
type Properties struct {
	ContentType     string
	ContentEncoding string
	CorrelationID   string
	ReplyTo         string
	Expiration      string // canonical decimal milliseconds, see ParseExpiration
	MessageID       string
	Type            string
	UserID          string
	AppID           string
	Timestamp       uint64 // seconds since the Unix epoch, as the publisher gave it
	Has             Presence
	DeliveryMode    uint8 // 1 or 2; kept, but every message is stored durably (MSG-5)
	Priority        uint8
}

// Present returns the bits of all properties that are present; HasHeaders only when it
// is set in Has, because the headers live in Message.
func (p *Properties) Present() Presence {
	h := p.Has & allPresence
	for _, f := range [...]struct {
		bit Presence
		set bool
	}{
		{HasContentType, p.ContentType != ""},
		{HasContentEncoding, p.ContentEncoding != ""},
		{HasDeliveryMode, p.DeliveryMode != 0},
		{HasPriority, p.Priority != 0},
		{HasCorrelationID, p.CorrelationID != ""},
		{HasReplyTo, p.ReplyTo != ""},
		{HasExpiration, p.Expiration != ""},
		{HasMessageID, p.MessageID != ""},
		{HasTimestamp, p.Timestamp != 0},
		{HasType, p.Type != ""},
		{HasUserID, p.UserID != ""},
		{HasAppID, p.AppID != ""},
	} {
		if f.set {
			h |= f.bit
		}
	}
	return h
}

// Present returns the bits of all properties that are present, the headers included.
func (m *Message) Present() Presence {
	h := m.Properties.Present()
	if len(m.Headers) > 0 {
		h |= HasHeaders
	}
	return h
}

// Death is one entry of the list of deaths (DL-30, DL-31, DL-33).
type Death struct {
	Queue  string
	Reason string // rejected, expired, maxlen, delivery_limit or queue_deleted (DL-1)
	Count  uint64
	// FirstTimeMs and LastTimeMs are the times of the first and the latest death of
	// this queue and reason.
	FirstTimeMs, LastTimeMs int64
	// Exchange and RoutingKeys are those the message had at the first such death; the
	// keys are without BCC.
	Exchange    string
	RoutingKeys []string
	// TTLMs is the message's own expiration at that time, valid when HasTTL.
	TTLMs  int64
	HasTTL bool
	// DeliveryCount and AcquiredCount are what the counts had reached at the latest
	// death; they restart at 0 in the target (DL-38).
	DeliveryCount, AcquiredCount uint32
}

// DeathOrigin names where a death happened (DL-34).
type DeathOrigin struct {
	Queue, Reason, Exchange string
}

// AskedPriority returns the priority, or -1 for a message without.
func (p *Properties) AskedPriority() int16 {
	if p.Priority == 0 && p.Has&HasPriority == 0 {
		return -1
	}
	return int16(p.Priority)
}
