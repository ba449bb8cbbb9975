package quorumq

// snapshotVersion is the first byte of a snapshot; see docs/formats/snapshot.md.
const snapshotVersion = 9

// Versions that are read too.
const (
	snapshotWithoutUse   = 2 // does not say when the queue was used last, nor of ack deadlines
	snapshotWithoutMoves = 3 // does not know of moved messages
	snapshotWithoutDelay = 4 // does not know of delayed messages
	snapshotWithoutDrops = 5 // does not count dead letters dropped at a switch
	snapshotWithoutGets  = 6 // counts no Gets, nor time-outs, nor failed returns
	snapshotWithoutEnd   = 7 // knows nothing of queues that are being emptied
	snapshotFirstRules   = 8 // of a queue under RulesFirst, written still: older builds read it
)

// knowsUse reports whether a snapshot has times of use and ack deadlines.
func (r *reader) knowsUse() bool { return r.version > snapshotWithoutUse }

func (r *reader) knowsDelays() bool { return r.version > snapshotWithoutDelay }

func (r *reader) knowsDrops() bool { return r.version > snapshotWithoutDrops }

func (r *reader) knowsGets() bool { return r.version > snapshotWithoutGets }

func (r *reader) knowsEnd() bool { return r.version > snapshotWithoutEnd }

func (r *reader) knowsMoves() bool { return r.version > snapshotWithoutMoves }
