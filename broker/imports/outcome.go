package imports

import (
	"slices"
	"strconv"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/definitions"
	"github.com/quorate/quorate/internal/password"
)

// Outcome is the result for one object of an import; in a dry run, the expected result.
type Outcome uint8

// The outcomes.
const (
	Created   Outcome = iota
	Unchanged         // exists with the same properties
	Different         // exists with other properties, and is left as it is
	Refused           // cannot be created
	Skipped           // is not something that an import creates
	Failed            // could not be created now, or needs an object that could not
	outcomes
)

// Imported is an object of the document, with the outcome of its import.
type Imported struct {
	Kind        string
	VHost, Name string
	Path        string // in the document
	Outcome     Outcome
	Reason      string
	Warnings    []string // what differs from the document (VH-13)

	cause cause // of the outcome Failed
}

// cause is what an object with the outcome Failed waits for.
type cause uint8

const (
	causeOther   cause = iota // room, another object, or a fault of the node
	causeVersion              // a version that is not finalised
	causeCluster              // a leader or a majority
)

// Summary counts objects by Outcome.
type Summary struct {
	Total  int
	Counts [outcomes]int
}

// planned returns the result of a step that is carried out without an error.
func planned(v *catalog.View, s *definitions.Step) Imported {
	out := Imported{Kind: s.Kind.String(), VHost: s.VHost, Name: s.Name, Path: s.Path, Reason: s.Reason, Warnings: s.Warnings}
	switch s.Action {
	case definitions.Create:
		out.Outcome = Created
	case definitions.Keep:
		out.Outcome = Unchanged
	case definitions.Differ:
		if out.Outcome = Different; samePassword(v, s) {
			out.Outcome, out.Reason = Unchanged, ""
		}
	case definitions.Refuse:
		out.Outcome = Refused
	case definitions.Skip:
		out.Outcome = Skipped
	}
	return out
}

// samePassword reports whether a user differs only in form: the document has its password, the
// cluster the hash of the same password.
func samePassword(v *catalog.View, s *definitions.Step) bool {
	c, is := s.Command.(*catalog.PutUser)
	if !is || s.Password == "" {
		return false
	}
	u, ok := v.User(c.Name)
	if !ok || !slices.Equal(u.Tags, c.Tags) || u.UserLimits != c.UserLimits {
		return false
	}
	same, err := password.Matches(s.Password, u.PasswordHash, password.Algorithm(u.Algorithm))
	return err == nil && same
}

// noteImported notes the results of an import for the audit, if it has created anything.
func noteImported(a *audit.Notes, s *Summary) {
	if s.Counts[Created] == 0 {
		return
	}
	for _, n := range []struct {
		name  string
		count int
	}{
		{"created", s.Counts[Created]},
		{"different", s.Counts[Different]},
		{"refused", s.Counts[Refused]},
		{"failed", s.Counts[Failed]},
	} {
		if n.count > 0 {
			a.Note(audit.Change{Field: n.name, After: strconv.Itoa(n.count)})
		}
	}
}
