package cluster

// Seen is what was seen of a cluster at one time, and what its specification asks for. It is all that a decision
// depends on: the operator may be killed after any step, and the next one continues from what is seen then. Nodes are
// named by their ordinal.
type Seen struct {
	// Wanted is how many nodes the specification asks for.
	Wanted int
	// Template is the digest of the template of pods that it asks for.
	Template string
	// SizeBytes is the size of volumes that it asks for.
	SizeBytes int64
	// KeepVolumes: volume claims of removed nodes are left to people.
	KeepVolumes bool
	// ReplaceByHand: a person gives up the data of nodes whose volume is lost.
	ReplaceByHand bool
	// TooOld reports that the image which the specification asks for does not read what is finalised: Template has
	// another one then; "": it is not known to be so.
	TooOld string
	// Paused: no further node changes.
	Paused bool
	// AllowPauses: queues whose only member is on a node may stand still while it restarts.
	AllowPauses bool

	// HandsOff is why a person has asked the operator to change nothing; "": nobody has.
	HandsOff string
	// Lacks is what a new pod could not start without, and could not be made; "": nothing.
	Lacks string

	// Set is nil if there is no StatefulSet.
	Set *Set
	// Pods by ordinal.
	Pods map[int]Pod
	// Claims of volumes by ordinal.
	Claims map[int]Claim
	// Founded: the broker has answered once.
	Founded bool
	// Broker is nil if it could not be asked; Unasked has the reason.
	Broker  *Broker
	Unasked string
	// Answers to what Plan asked about before, in the same pass.
	Answers map[Question]Answer
}

// Set is the StatefulSet.
type Set struct {
	// Replicas that it is to have.
	Replicas int
	// Template is the digest of its template.
	Template string
	// SizeBytes is the size of volumes in its template.
	SizeBytes int64
	// Available is how many of its pods have been ready for its minReadySeconds, by the clock of its controller.
	Available int
	// Settled: its controller has seen its latest change.
	Settled bool
	// Going: it is being deleted.
	Going bool
}

// Pod is a pod of a node.
type Pod struct {
	// Serves: it is ready, for however short a time.
	Serves bool
	// Ready, and has been so for the StatefulSet's minReadySeconds, by the operator's clock.
	Ready bool
	// Current: it was made of the template that the StatefulSet has now.
	Current bool
	// Broken: its process does not run, and cannot be serving.
	Broken bool
	// Stuck is why it does not start, and will not by itself; "": it may.
	Stuck string
	// TooOld is the version of stored state that its node reads, if it has ended because that is too old; 0: it has not.
	TooOld uint32
	// Going: it is being deleted.
	Going bool
}

// Claim is the claim of a node's volume.
type Claim struct {
	// SizeBytes that it asks for.
	SizeBytes int64
	// Growable: its class allows it to grow.
	Growable bool
	// Refused has Kubernetes' words when it did not let the claim grow in this pass; "": it has not been tried, or grew.
	Refused string
	// Leaving: the operator has begun to remove its node. The mark is on the claim, because pods come and go.
	Leaving bool
	// GivenUp: its node was removed by the operator, and the broker never takes it back.
	GivenUp bool
	// Going: it is being deleted.
	Going bool
}

// Broker is what the nodes say themselves.
type Broker struct {
	// Nodes that are registered, by ordinal: running, draining, refused, silent, down, or a phase of the start.
	Nodes map[int]string
	// Removal is the ordinal of the node that an operation of the broker removes; -1: none.
	Removal int
	// Busy is another operation that is under way; "": none.
	Busy string
}

// Question is something that only the broker knows, and that is asked only if it matters.
type Question struct {
	About Topic
	Node  int
}

// Topic is what a question is about.
type Topic int

// The topics.
const (
	// MayTakeDown: what speaks against taking the node down now?
	MayTakeDown Topic = iota + 1
	// MayRemove: what speaks against removing the node from the cluster?
	MayRemove
	// MayReplace: what speaks against giving up what the node had stored?
	MayReplace
	// MayForget: what would be lost with the node, which has no pod?
	MayForget
)

// Answer is the broker's; it is "" if nothing speaks against it.
type Answer string

// Answers about MayReplace where giving up what the node had stored is not what helps.
const (
	// vacant: it was given up already.
	vacant Answer = "what it had stored was given up already"
	// otherData: the node that is refused does not wait with an empty data directory.
	otherData Answer = "it does not wait with an empty data directory"
)

// running is the state of a node that serves clients.
const running = "running"

// draining is the state of a node that leads nothing and serves nobody.
const draining = "draining"

// refused is the state of a node with a data directory that the cluster does not know.
const refused = "refused"

// has reports whether a node is registered.
func (b *Broker) has(node int) bool {
	_, is := b.Nodes[node]
	return is
}

// highestPod returns the highest ordinal of a pod, or -1.
func (s *Seen) highestPod() int {
	top := -1
	for i := range s.Pods {
		top = max(top, i)
	}
	return top
}

// highestClaim returns the highest ordinal of a claim with data that may be needed, or -1.
func (s *Seen) highestClaim() int {
	top := -1
	for i, c := range s.Claims {
		if !c.GivenUp && !c.Going {
			top = max(top, i)
		}
	}
	return top
}
