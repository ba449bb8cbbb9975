package audit

import (
	"strconv"
	"strings"

	"github.com/quorate/quorate/cluster/event"
)

// Bounds of a record (AU-4).
const (
	// NameBytes bounds a name in a record, ValueBytes what a field is or was,
	// ChangesBytes all fields of a record together, and ReasonBytes why it was refused.
	NameBytes    = 255
	ValueBytes   = 256
	ChangesBytes = 1024
	ReasonBytes  = 512
	// auditClientBytes bounds what a client calls itself.
	auditClientBytes = 128
)

// Change is a field of an object before and after.
type Change = event.Change

// bounded is text of so many bytes at most. It is valid UTF-8, as messages between nodes have to be.
func bounded(s string, most int) string {
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

// boundedChanges leaves out what is too much.
func boundedChanges(all []Change) []Change {
	left := ChangesBytes
	for i := range all {
		c := &all[i]
		c.Field, c.Before, c.After = bounded(c.Field, ValueBytes), bounded(c.Before, ValueBytes), bounded(c.After, ValueBytes)
		if left -= len(c.Field) + len(c.Before) + len(c.After); left < 0 {
			return append(all[:i], Change{Field: "left_out", After: strconv.Itoa(len(all)-i) + " fields"})
		}
	}
	return all
}

// changesText is changes for the log.
func changesText(all []Change) string {
	var b strings.Builder
	for i := range all {
		c := &all[i]
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(c.Field + ": " + strconv.Quote(c.Before) + " -> " + strconv.Quote(c.After))
	}
	return b.String()
}
