package event

// Audit is the kind of records of who changed what, or was refused it (AU-1). Their Audit says
// more; VHost and Name are of the object, Cause is why it was refused, and Count how many records
// like this one were left out before it.
const Audit Kind = "audit"

// The outcomes of an Audited.
const (
	Done    = "done"
	Refused = "refused" // nothing has changed
	Unknown = "unknown" // it may have been done: who was asked has not answered
)

// AuditList is a bounded list of audit records of a node.
type AuditList uint8

// The lists. What clients do all the time must not push out who may do what.
const (
	AuditOfUse AuditList = iota
	AuditOfAdministration
	auditLists
)

// AuditLists are all lists.
func AuditLists() [auditLists]AuditList {
	return [...]AuditList{AuditOfUse, AuditOfAdministration}
}

// AuditKeep is the number of records that each list of a node keeps at least; twice as many are
// the most.
const AuditKeep = 2048

// AuditLog is the lists of a node. All methods of the logs may be called concurrently.
type AuditLog [auditLists]*Log

// NewAuditLog returns empty lists.
func NewAuditLog() AuditLog {
	return AuditLog{NewLog(AuditKeep), NewLog(AuditKeep)}
}
