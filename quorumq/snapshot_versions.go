package quorumq

// snapshotVersion is the first byte of a snapshot; see docs/formats/snapshot.md.
const snapshotVersion = 10

// Older versions that can still be read.
const (
	snapshotWithoutUse   = 2 // without the time of last use, and ack deadlines
	snapshotWithoutMoves = 3 // without moved messages
	snapshotWithoutDelay = 4 // without delayed messages
	snapshotWithoutDrops = 5 // without the count of dead letters dropped at a switch
	snapshotWithoutGets  = 6 // without counts of Gets, timeouts and failed returns
	snapshotWithoutEnd   = 7 // without queues that are being emptied
	snapshotFirstRules   = 8 // of a queue under RulesFirst; still written, so that older builds can read it
	snapshotThirdRules   = 9 // the same under RulesThird
)

// snapshotOf returns the version of snapshots of a queue under these rules.
func snapshotOf(r Rules) byte {
	switch {
	case r >= RulesSeventh:
		return snapshotVersion
	case r >= RulesThird:
		return snapshotThirdRules
	}
	return snapshotFirstRules
}

// knowsUse reports whether a snapshot has times of use and ack deadlines.
func (r *reader) knowsUse() bool { return r.version > snapshotWithoutUse }

func (r *reader) knowsDelays() bool { return r.version > snapshotWithoutDelay }

func (r *reader) knowsDrops() bool { return r.version > snapshotWithoutDrops }

func (r *reader) knowsGets() bool { return r.version > snapshotWithoutGets }

func (r *reader) knowsEnd() bool { return r.version > snapshotWithoutEnd }

func (r *reader) knowsMoves() bool { return r.version > snapshotWithoutMoves }
