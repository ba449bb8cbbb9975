package quorumq

// Rules selects the rules by which commands are applied, where these have changed: its number is
// that of the machine version that added them (ADR 0016). Configure raises it once that version is
// finalised, so that members of all builds change at the same entry. It never falls.
type Rules uint8

const (
	// RulesFirst are those of machine versions 1 and 2.
	RulesFirst Rules = 0
	// RulesThird limit the due messages of each entry instead of each command (TTL-7), assign a
	// message to a waiting consumer before limits apply (LEN-9), and let a leader report the
	// deliveries of a lost consumer that were never sent (DEL-8).
	RulesThird Rules = 3
	// RulesSeventh let a queue whose deletion is decided refuse what still comes once it is empty, take
	// back what it dead-letters to itself although it is full (DL-26), and remember a limited number of ranges (DL-25).
	RulesSeventh Rules = 7

	// NewestRules are the newest that this build knows.
	NewestRules = RulesSeventh
)

// RulesOf returns the rules of a finalised machine version.
func RulesOf(version uint8) Rules {
	switch {
	case version >= uint8(RulesSeventh):
		return RulesSeventh
	case version >= uint8(RulesThird):
		return RulesThird
	}
	return RulesFirst
}
