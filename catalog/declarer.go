package catalog

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// From VersionDeclarers on, a queue's record names the user that declared it, and the index of the
// command that made this user. A user that was deleted and made again is another one, and begins
// without queues (VH-17).

// DeclarerOf returns the user whose limits a queue counts towards: the one that declared it. A queue has none if
// nobody was logged in, if the declarer has no record in the catalog, or if it was deleted since (VH-17).
func (v *View) DeclarerOf(q *QueueRecord) (*User, bool) {
	if q.DeclaredBy == "" {
		return nil, false
	}
	u, ok := v.users.get(q.DeclaredBy)
	if !ok || u.since != q.declarerSince {
		return nil, false
	}
	return u, true
}

// QueueCountOf returns the number of queues that count towards the limits of a user (VH-17).
func (v *View) QueueCountOf(user string) int {
	n, _ := v.declared.get(user)
	return n
}

// countDeclared changes the count of the user that declared a queue, if the queue counts for a
// user.
func (v *View) countDeclared(q *QueueRecord, by int) {
	u, counts := v.DeclarerOf(q)
	if !counts {
		return
	}
	if n := v.QueueCountOf(u.Name) + by; n > 0 {
		v.declared = v.declared.set(u.Name, n)
	} else {
		v.declared = v.declared.without(u.Name)
	}
}

// checkDeclarer checks that the declaring user may have one more queue (VH-17).
func (v *View) checkDeclarer(e Error, c *DeclareQueue) *Error {
	if !e.nameFits(c.DeclaredBy) {
		e.Arg = "declared_by"
		return &e
	}
	u, ok := v.users.get(c.DeclaredBy)
	if !ok || u.MaxQueues == Unlimited || int64(v.QueueCountOf(u.Name)) < u.MaxQueues {
		return nil
	}
	return &Error{
		Code: CodePreconditionFailed, Kind: "user", Name: u.Name, Arg: "max-queues", Value: strconv.FormatInt(u.MaxQueues, 10),
		Reason: fmt.Sprintf("the user has declared %d queues, so queue %q in vhost %q cannot be made; delete some, or raise the limit",
			v.QueueCountOf(u.Name), c.Name, c.VHost),
	}
}

// appendDeclarer writes what VersionDeclarers added to queues.
func appendDeclarer(b []byte, q *QueueRecord) []byte {
	if b = appendString(b, q.DeclaredBy); q.DeclaredBy != "" {
		b = binary.AppendUvarint(b, q.declarerSince)
	}
	return b
}

// declarer reads what appendDeclarer wrote.
func (r *reader) declarer(q *QueueRecord) {
	if q.DeclaredBy = r.string("declared by"); q.DeclaredBy != "" {
		q.declarerSince = r.uvarint("declarer since")
	}
}
