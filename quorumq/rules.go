package quorumq

// Rules says by which rules commands are carried out where these have changed: the number is
// that of the machine version that brought them (ADR 0016). They come by Configure, once that
// version is finalised, so that members of all builds change at the same entry, and never go
// back.
type Rules uint8

const (
	// RulesFirst are those of machine versions 1 and 2.
	RulesFirst Rules = 0
	// RulesThird bound what is taken off by the entry instead of by the command (TTL-7), hand
	// a message to a consumer that waits before a limit looks at it (LEN-9), and let a leader
	// tell what never left it of what a lost consumer holds (DEL-8).
	RulesThird Rules = 3

	// NewestRules are the newest that this build knows.
	NewestRules = RulesThird
)

// RulesOf returns the rules of a finalised machine version.
func RulesOf(version uint8) Rules {
	if version >= uint8(RulesThird) {
		return RulesThird
	}
	return RulesFirst
}
