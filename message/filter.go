package message

import "slices"

// Filter chooses messages; the zero value chooses all. All that is set must hold.
type Filter struct {
	MessageIDs []string // the message's is one of them
	// Headers must be there and be equal by class, those that describe deaths included
	// (DL-34); a null value asks only whether there is one.
	Headers Table
	// Death: one death must have all that is set.
	Death DeathOrigin
	Dead  bool // it has died
}

// Empty reports that the filter chooses all.
func (f *Filter) Empty() bool {
	return len(f.MessageIDs) == 0 && len(f.Headers) == 0 && f.Death == (DeathOrigin{}) && !f.Dead
}

// Matches reports whether the filter chooses a message.
func (f *Filter) Matches(m *Message) bool {
	switch {
	case f.Dead && len(m.Deaths) == 0:
		return false
	case len(f.MessageIDs) > 0 && (m.MessageID == "" || !slices.Contains(f.MessageIDs, m.MessageID)):
		return false
	case f.Death != (DeathOrigin{}) && !slices.ContainsFunc(m.Deaths, f.died):
		return false
	case len(f.Headers) == 0:
		return true
	}
	headers := m.Headers
	if len(m.Deaths) > 0 {
		headers = headers.Merged(DeathHeaders(m))
	}
	for _, want := range f.Headers {
		have, ok := headers.Get(want.Name)
		if !ok || !want.Value.IsNull() && !want.Value.EqualClass(have) {
			return false
		}
	}
	return true
}

// died reports whether a line of the history has all that is asked for.
func (f *Filter) died(d Death) bool {
	w := &f.Death
	return (w.Queue == "" || w.Queue == d.Queue) && (w.Reason == "" || w.Reason == d.Reason) &&
		(w.Exchange == "" || w.Exchange == d.Exchange)
}
