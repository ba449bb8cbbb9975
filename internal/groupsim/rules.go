package groupsim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/id"
)

// fate is what a client knows of a command.
type fate uint8

const (
	unknown fate = iota
	confirmed
)

// vote is for whom a member has voted in a term.
type vote struct {
	who  id.NodeID
	term uint64
}

// start is one start of a member.
type start struct {
	who  id.NodeID
	life int
}

// rules are the statements of members and clients on which others rely. The run's lock guards them.
type rules struct {
	first   *Violation
	votes   map[vote]id.NodeID
	leaders map[uint64]start // by term
	acted   map[start]uint64 // the newest term in which a member has voted or answered for entries, in one of its lives
	fates   map[string]fate
}

func newRules() *rules {
	return &rules{votes: map[vote]id.NodeID{}, leaders: map[uint64]start{}, acted: map[start]uint64{}, fates: map[string]fate{}}
}

// broke records the first rule that does not hold; later ones may follow from it.
func (r *rules) broke(rule, format string, args ...any) {
	if r.first == nil {
		r.first = &Violation{Rule: rule, Text: fmt.Sprintf(format, args...)}
	}
}

// voted judges a vote that has left its member: the only one that it gives in the term.
func (r *rules) voted(m start, candidate id.NodeID, term uint64) {
	r.vote(m.who, candidate, term)
	r.acts(m, term, "votes for "+string(candidate))
}

// vote records a vote that counts.
func (r *rules) vote(who, candidate id.NodeID, term uint64) {
	v := vote{who, term}
	if other, is := r.votes[v]; is && other != candidate {
		r.broke("one vote", "member %s votes for %s and for %s in term %d", who, other, candidate, term)
	}
	r.votes[v] = candidate
}

// answered judges an answer that has left its member, by which others count entries of a leader as stored. first: it is
// the first of its life in this term.
func (r *rules) answered(m start, term uint64) (first bool) {
	first = r.acted[m] < term
	r.acts(m, term, "answers for entries")
	return first
}

// stands judges a request for votes. It does not count as a vote yet: the member may still have to store its own.
func (r *rules) stands(m start, term uint64) {
	if other, is := r.votes[vote{m.who, term}]; is && other != m.who {
		r.broke("one vote", "member %s stands in term %d, in which it has voted for %s", m.who, term, other)
	}
	if newest := r.before(m); newest >= term {
		r.broke("terms", "member %s stands in term %d, after it has acted for another in term %d in an earlier life", m.who, term, newest)
	}
}

// acts records that a member has acted in a term. Within one life its answers may leave in another order than they
// were made.
func (r *rules) acts(m start, term uint64, how string) {
	if newest := r.before(m); newest > term {
		r.broke("terms", "member %s %s in term %d, after it has acted in term %d in an earlier life", m.who, how, term, newest)
	}
	r.acted[m] = max(r.acted[m], term)
}

// before returns the newest term in which a member has acted in earlier lives.
func (r *rules) before(m start) (newest uint64) {
	for at := (start{m.who, 0}); at.life < m.life; at.life++ {
		newest = max(newest, r.acted[at])
	}
	return newest
}

// leads judges what only the leader of a term sends: it is one, and has voted for itself.
func (r *rules) leads(m start, term uint64) {
	other, is := r.leaders[term]
	switch {
	case !is:
		r.leaders[term] = m
		r.vote(m.who, m.who, term)
	case other.who != m.who:
		r.broke("one leader", "members %s and %s both lead in term %d", other.who, m.who, term)
	case other.life != m.life:
		r.broke("one leader", "member %s leads in term %d in two of its lives", m.who, term)
	}
}

// confirm records that a client has got the reply to a command, and how many of all disks have it.
func (r *rules) confirm(header string, disks, of int) {
	r.fates[header] = confirmed
	if disks <= of/2 {
		r.broke("PUB-7", "command %s is confirmed, and on %d of %d disks", header, disks, of)
	}
}

// confirmed returns how many commands are confirmed.
func (r *rules) confirmed() (n int) {
	for _, f := range r.fates {
		if f == confirmed {
			n++
		}
	}
	return n
}

// judge holds what the members have in the end against what clients know.
func (r *rules) judge(headers []string) {
	there := map[string]int{}
	for _, h := range headers {
		if strings.HasPrefix(h, leadPrefix) {
			continue
		}
		there[h]++
		if _, sent := r.fates[h]; !sent {
			r.broke("PUB-5", "the group has command %q, which nobody has proposed", h)
		}
		if there[h] > 1 {
			r.broke("PUB-6", "the group has command %s %d times", h, there[h])
		}
	}
	var lost []string
	for h, f := range r.fates {
		if f == confirmed && there[h] == 0 {
			lost = append(lost, h)
		}
	}
	if len(lost) > 0 {
		r.broke("PUB-7", "%d of %d confirmed commands are lost, one is %s", len(lost), r.confirmed(), slices.Min(lost))
	}
}
