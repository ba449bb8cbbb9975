package cluster

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// vacated is the store of a node that was given up.
const vacated = -1

// world is a cluster in Kubernetes as far as plans are about it. Nodes keep their store in their claim; the broker knows
// each node by its store, and moves members off a node before it forgets it.
type world struct {
	t    *testing.T
	rand *rand.Rand
	seen Seen // of which the world owns what the specification says, Set, Pods and Claims

	stores    map[int]int    // of claims
	known     map[int]int    // stores by which the broker knows nodes
	forgotten map[int]bool   // stores that it never takes back
	used      map[int]bool   // stores that have data
	next      int            // store
	made      map[int]string // templates of pods
	drained   map[int]bool   // nodes
	removal   int            // node that is being removed; -1: none
	members   map[int]bool   // nodes that hold members of queues
	founded   bool
	quota     bool // no claim may grow
	behind    int  // node that the view which is asked takes for refused although it runs; -1: none
	log       []string
}

func newWorld(t *testing.T, r *rand.Rand) *world {
	return &world{
		t: t, rand: r, removal: -1, behind: -1, made: map[int]string{}, stores: map[int]int{}, known: map[int]int{}, forgotten: map[int]bool{}, used: map[int]bool{}, drained: map[int]bool{}, members: map[int]bool{},
		seen: Seen{Wanted: 1 + r.IntN(5), Template: "t0", SizeBytes: 10, KeepVolumes: r.IntN(2) == 0, Pods: map[int]Pod{}, Claims: map[int]Claim{}},
	}
}

func (w *world) fatal(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.log[max(0, len(w.log)-60):] {
		w.t.Log(line)
	}
	w.t.Fatalf(format, args...)
}

// state is how the broker sees a node.
func (w *world) state(i int) string {
	pod, is := w.seen.Pods[i]
	switch {
	case !is || pod.Going || pod.Broken:
		return "down"
	case w.stores[i] != w.known[i]:
		return refused
	case w.drained[i]:
		return draining
	}
	return running
}

// up counts registered nodes that run.
func (w *world) up() int {
	n := 0
	for i := range w.known {
		if s := w.state(i); s == running || s == draining {
			n++
		}
	}
	return n
}

// look makes what the operator sees now.
func (w *world) look() *Seen {
	s := w.seen
	s.Pods, s.Claims, s.Answers = maps.Clone(s.Pods), maps.Clone(s.Claims), map[Question]Answer{}
	if w.seen.Set != nil {
		set := *w.seen.Set
		s.Set = &set
		for i, p := range s.Pods {
			p.Current = w.made[i] == set.Template
			s.Pods[i] = p
		}
	}
	s.Unasked, s.Founded = "no majority", w.founded
	if w.founded && w.up() > len(w.known)/2 {
		s.Broker = &Broker{Nodes: map[int]string{}, Removal: w.removal}
		for i := range w.known {
			s.Broker.Nodes[i] = w.state(i)
		}
		if s.Broker.Nodes[w.behind] == running {
			s.Broker.Nodes[w.behind] = refused
		}
	}
	return &s
}

// answer is the broker's.
func (w *world) answer(q Question) Answer {
	other := 0
	for i := range w.known {
		if i != q.Node && w.state(i) == running {
			other++
		}
	}
	switch rest := len(w.known) - 1; {
	case q.About == MayTakeDown && len(w.known) > 1 && other < rest:
		return "others are missing"
	case q.About != MayTakeDown && other <= rest/2:
		return "those that stay are no majority"
	case q.About == MayReplace && w.known[q.Node] == vacated:
		return vacant
	case q.About == MayReplace && (w.known[q.Node] == w.stores[q.Node] || w.used[w.stores[q.Node]]):
		return otherData
	}
	return ""
}

// pass is one reconcile of the operator, which may be killed before or after its step.
func (w *world) pass() Step {
	s := w.look()
	for range 100 {
		step, _ := Plan(s)
		if step.Do == GrowClaim && w.quota {
			c := s.Claims[step.Node]
			c.Refused = "exceeded quota"
			s.Claims[step.Node] = c
			continue
		}
		if step.Do != Ask {
			if w.rand.IntN(8) > 0 {
				w.do(step)
			}
			return step
		}
		s.Answers[step.Question] = w.answer(step.Question)
	}
	w.fatal("the plan asks for ever")
	return Step{}
}

// do carries a step out, and fails the test if it breaks what always holds.
func (w *world) do(step Step) {
	if step.Do != Wait && step.Do != Nothing {
		w.log = append(w.log, fmt.Sprintf("do %d node %d replicas %d: %s", step.Do, step.Node, step.Replicas, step.Why))
	}
	i, s := step.Node, &w.seen
	if s.Lacks != "" && (step.Do == CreateSet || step.Do == ChangeSet || step.Do == OrphanSet) {
		w.fatal("pods are made that could not start: %+v", step)
	}
	switch step.Do {
	case Nothing, Wait, Ask:
	case CreateSet:
		s.Set = &Set{Replicas: step.Replicas, Template: s.Template, SizeBytes: s.SizeBytes}
	case ChangeSet:
		s.Set.Template, s.Set.Settled = s.Template, false
	case OrphanSet:
		s.Set = nil
	case SetReplicas:
		w.setReplicas(step.Replicas)
	case TakePod:
		w.take(i)
	case GrowClaim, GiveUpClaim:
		c := s.Claims[i]
		if step.Do == GrowClaim {
			c.SizeBytes = s.SizeBytes
		} else if _, is := w.known[i]; is {
			w.fatal("the claim of node %d is given up, which the cluster counts on", i)
		} else {
			c.GivenUp = true
		}
		s.Claims[i] = c
	case DeleteClaim:
		if c := s.Claims[i]; !c.GivenUp || w.known[i] == w.stores[i] && w.founded && w.known[i] != 0 {
			w.fatal("claim %d is deleted: %+v", i, c)
		}
		delete(s.Claims, i)
		delete(w.stores, i)
	case MarkLeaving:
		c := s.Claims[i]
		c.Leaving = true
		s.Claims[i] = c
	case UnmarkClaim:
		c := s.Claims[i]
		if _, is := w.known[i]; !is {
			w.fatal("the mark is taken off the claim of node %d, which the cluster does not know", i)
		}
		c.GivenUp = false
		s.Claims[i] = c
	case Undrain:
		c := s.Claims[i]
		c.Leaving = false
		s.Claims[i], w.drained[i] = c, false
	default:
		w.ask(step)
	}
}

// ask carries out steps of the broker.
func (w *world) ask(step Step) {
	i := step.Node
	switch step.Do {
	case RemoveNode:
		w.removal, w.drained[i] = i, true
	case CancelRemoval:
		w.removal = -1
	case ForgetNode:
		if w.state(i) != "down" {
			w.fatal("node %d runs and is forgotten", i)
		}
		w.forget(i)
	case ReplaceNode:
		if w.known[i] == w.stores[i] || w.used[w.stores[i]] {
			w.fatal("the store of node %d is given up, and no empty one waits for its place", i)
		}
		w.forgotten[w.known[i]] = true
		w.known[i] = vacated // until it comes in
	default:
		w.fatal("action %d is not known", step.Do)
	}
}

func (w *world) forget(i int) {
	w.forgotten[w.known[i]] = true
	delete(w.known, i)
	delete(w.members, i)
	delete(w.drained, i)
}

// setReplicas checks the one thing that must never happen.
func (w *world) setReplicas(n int) {
	set := w.seen.Set
	if n < set.Replicas-1 {
		w.fatal("%d replicas become %d at once", set.Replicas, n)
	}
	if n < set.Replicas && (w.members[n] || w.known[n] != 0) {
		w.fatal("node %d ends while the cluster counts on it", n)
	}
	set.Replicas, set.Settled = n, false
}

// take ends a pod, which must not be the second that serves nobody because of the operator.
func (w *world) take(i int) {
	p := w.seen.Pods[i]
	if w.seen.Claims[i].Going {
		w.fatal("node %d is taken while its claim is being deleted: its volume would go", i)
	}
	if !p.Broken && w.founded {
		if set := w.seen.Set; p.Ready && set.Available < set.Replicas {
			w.fatal("node %d is taken while %d of %d pods are available", i, set.Available, set.Replicas)
		}
		for j, o := range w.seen.Pods {
			if _, counts := w.known[j]; j != i && counts && (!o.Ready || o.Going) && p.Ready {
				w.fatal("node %d is taken while node %d is not ready", i, j)
			}
		}
	}
	p.Going = true
	w.seen.Pods[i] = p
}

// kubernetes does what the controllers of Kubernetes and the nodes do in a while.
func (w *world) kubernetes() {
	s := &w.seen
	if s.Set != nil {
		s.Set.Settled = true
		for i := range s.Set.Replicas {
			if _, is := s.Claims[i]; !is {
				s.Claims[i] = Claim{SizeBytes: s.Set.SizeBytes, Growable: true}
				w.next++
				w.stores[i] = w.next
			}
			if _, is := s.Pods[i]; !is {
				s.Pods[i], w.made[i] = Pod{Broken: s.Set.Template == "bad"}, s.Set.Template
				delete(w.drained, i)
			}
		}
	}
	for i, p := range s.Pods {
		switch {
		case p.Going || s.Set != nil && i >= s.Set.Replicas:
			delete(s.Pods, i)
			if w.removal == i {
				w.removal = -1
			}
		case !p.Broken:
			w.join(i)
			p.Ready = w.founded && w.state(i) == running && w.known[i] != 0 && w.up() > len(w.known)/2
			s.Pods[i] = p
		}
	}
	w.release()
	if s.Set != nil {
		s.Set.Available = 0
		for i, p := range s.Pods {
			if p.Ready && !p.Going && i < s.Set.Replicas {
				s.Set.Available++
			}
		}
		if w.rand.IntN(3) == 0 { // one or more have not been ready for long enough
			s.Set.Available = w.rand.IntN(s.Set.Available + 1)
		}
	}
	if !w.founded && s.Set != nil && len(w.stores) > 0 && w.allStart() {
		w.founded = true
	}
	if w.removal >= 0 && w.rand.IntN(2) == 0 {
		w.forget(w.removal)
		w.removal = -1
	}
}

// release lets the claims go that somebody has deleted, once no pod uses them. Where the others could not bear it, somebody
// keeps the volume, and claims it again.
func (w *world) release() {
	s := &w.seen
	for _, i := range slices.Sorted(maps.Keys(s.Claims)) {
		c := s.Claims[i]
		if _, used := s.Pods[i]; used || !c.Going {
			continue
		}
		if _, counts := w.known[i]; !counts || len(w.known) >= 3 && w.up() == len(w.known)-1 && w.removal < 0 {
			delete(s.Claims, i)
			delete(w.stores, i)
			w.log = append(w.log, fmt.Sprintf("claim %d has gone", i))
			continue
		}
		c.Going = false
		s.Claims[i] = c
	}
}

// allStart reports whether the pods that found the cluster are there.
func (w *world) allStart() bool {
	for i := range w.seen.Set.Replicas {
		if p, is := w.seen.Pods[i]; !is || p.Broken || p.Going {
			return false
		}
	}
	for i := range w.seen.Set.Replicas {
		w.known[i], w.members[i], w.used[w.stores[i]] = w.stores[i], true, true
	}
	return true
}

// join registers a node that comes for the first time.
func (w *world) join(i int) {
	s, known := w.known[i]
	if w.founded && (!known || s == vacated) && !w.forgotten[w.stores[i]] && !w.used[w.stores[i]] {
		w.known[i], w.members[i], w.used[w.stores[i]] = w.stores[i], true, true
	}
}

// trouble changes the specification, or lets something fail.
func (w *world) trouble() {
	s := &w.seen
	switch w.rand.IntN(12) {
	case 0, 1:
		s.Wanted = 1 + w.rand.IntN(5)
	case 2:
		s.Template = fmt.Sprintf("t%d", w.rand.IntN(3))
	case 3:
		s.Template = "bad"
	case 4:
		if s.SizeBytes += 10; w.rand.IntN(3) == 0 {
			s.SizeBytes = max(s.SizeBytes-20, 10)
		}
	case 5: // a pod dies
		if i := w.rand.IntN(5); s.Pods[i].Ready {
			p := s.Pods[i]
			p.Going = true
			s.Pods[i] = p
		}
	case 6: // a volume is lost, where the others can bear it
		i := w.rand.IntN(5)
		if p, is := s.Pods[i]; is && len(w.known) >= 3 && w.up() == len(w.known) && w.removal < 0 && s.Claims[i].SizeBytes > 0 {
			p.Going = true
			s.Pods[i] = p
			delete(s.Claims, i)
			delete(w.stores, i)
		}
	case 7:
		s.Paused = !s.Paused
	default:
		w.surprise()
	}
	w.log = append(w.log, fmt.Sprintf("wanted %d template %s size %d paused %v", s.Wanted, s.Template, s.SizeBytes, s.Paused))
}

// surprise is what somebody else does, or what is seen wrongly.
func (w *world) surprise() {
	s, i := &w.seen, w.rand.IntN(5)
	p, is := s.Pods[i]
	switch w.rand.IntN(8) {
	case 0: // the StatefulSet is scaled by hand
		if s.Set != nil {
			s.Set.Replicas, s.Set.Settled = 1+w.rand.IntN(5), false
			w.log = append(w.log, fmt.Sprintf("by hand: %d replicas", s.Set.Replicas))
		}
	case 1: // a volume of another node, where the others can bear it, until somebody looks after it
		if is && len(w.known) >= 3 && w.up() == len(w.known) && w.removal < 0 {
			p.Going = true
			s.Pods[i] = p
			w.next++
			w.stores[i], w.used[w.next] = w.next, true
			w.log = append(w.log, fmt.Sprintf("by hand: node %d has another volume", i))
		}
	case 2: // a view that is behind
		w.behind = i
	case 3: // a mark on a claim that is needed
		if c, is := s.Claims[i]; is {
			c.GivenUp = true
			s.Claims[i] = c
			w.log = append(w.log, fmt.Sprintf("by hand: claim %d is marked", i))
		}
	case 4: // a class of volumes that cannot grow
		if c, is := s.Claims[i]; is {
			c.Growable = false
			s.Claims[i] = c
		}
	case 5: // what new pods need cannot be made, or can again
		if s.Lacks == "" {
			s.Lacks = "a key"
		} else {
			s.Lacks = ""
		}
	case 6:
		w.quota = !w.quota
	case 7: // the claim of a pod is deleted by mistake, and stays as long as the pod
		if c, has := s.Claims[i]; has && is {
			c.Going = true
			s.Claims[i] = c
			w.log = append(w.log, fmt.Sprintf("by hand: claim %d is deleted, and its pod is not", i))
		}
	}
}

// person does what conditions ask for: empty volumes in place of those that are not the right ones, or that cannot grow. It
// ends the pods whose claims somebody has deleted.
// It also takes back what was done by hand and only hands can mend: marks on claims that are needed for a majority, and
// claims of stores that were forgotten, whose pods somebody has brought back.
func (w *world) person() {
	s := &w.seen
	for _, i := range slices.Sorted(maps.Keys(s.Claims)) {
		if p, is := s.Pods[i]; is && s.Claims[i].Going {
			p.Going = true
			s.Pods[i] = p
			return // one at a time
		}
	}
	for _, i := range slices.Sorted(maps.Keys(s.Claims)) {
		c, pod := s.Claims[i], s.Pods[i]
		switch _, known := w.known[i]; {
		case known && c.GivenUp && w.up() <= len(w.known)/2:
			c.GivenUp = false
			s.Claims[i] = c
		case w.founded && !known && !pod.Ready && (w.forgotten[w.stores[i]] || w.used[w.stores[i]] || s.Set != nil && i >= s.Set.Replicas) && w.removal != i:
			delete(s.Claims, i)
			delete(w.stores, i)
			if p, is := s.Pods[i]; is {
				p.Going = true
				s.Pods[i] = p
			}
		}
	}
	for _, i := range slices.Sorted(maps.Keys(w.known)) {
		c, is := s.Claims[i]
		other := is && w.known[i] != vacated && w.stores[i] != w.known[i] && w.used[w.stores[i]]
		small := is && s.Set != nil && s.Set.SizeBytes >= s.SizeBytes && c.SizeBytes < s.SizeBytes && !c.Growable && w.up() == len(w.known) && len(w.known) >= 3
		if !other && !small {
			continue
		}
		delete(s.Claims, i)
		delete(w.stores, i)
		if p, is := s.Pods[i]; is {
			p.Going = true
			s.Pods[i] = p
		}
		w.log = append(w.log, fmt.Sprintf("by hand: the claim of node %d is deleted", i))
		return
	}
}

// done reports what is missing.
func (w *world) done() error {
	s, size := &w.seen, w.seen.SizeBytes
	for _, c := range s.Claims { // volumes do not shrink, and new ones are as large
		size = max(size, c.SizeBytes)
	}
	if s.Set == nil || s.Set.Replicas != s.Wanted || len(s.Pods) != s.Wanted || len(w.known) != s.Wanted || s.Set.SizeBytes < s.SizeBytes || s.Set.SizeBytes > size {
		return fmt.Errorf("set %+v, %d pods, nodes %v, wanted %d of %d", s.Set, len(s.Pods), w.known, s.Wanted, s.SizeBytes)
	}
	for _, i := range slices.Sorted(maps.Keys(s.Pods)) {
		if p := s.Pods[i]; !p.Ready || w.made[i] != s.Template || s.Claims[i].Leaving || s.Claims[i].GivenUp || s.Claims[i].SizeBytes < s.SizeBytes && (s.Claims[i].Growable || len(w.known) >= 3) {
			return fmt.Errorf("pod %d %+v, claim %+v, %s", i, p, s.Claims[i], w.state(i))
		}
	}
	return nil
}

// Whatever is asked for, fails and is killed meanwhile: no replica goes before its node has been removed, no second node is
// taken down, no claim is deleted that is needed, and in the end the cluster is what was asked for.
func TestRandomWalk(t *testing.T) {
	for seed := range uint64(3000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t, r)
			for range 200 {
				switch r.IntN(12) {
				case 0:
					w.trouble()
				case 1, 2, 3, 4, 5:
					w.kubernetes()
				default:
					w.pass()
				}
			}
			if w.seen.Template == "bad" {
				w.seen.Template = "t9"
			}
			w.seen.Paused, w.seen.Lacks, w.quota = false, "", false
			w.behind = -1
			var last Step
			for range 400 {
				w.kubernetes()
				w.person()
				last = w.pass()
			}
			if err := w.done(); err != nil {
				w.fatal("it does not become what was asked for: %v; last step %+v", err, last)
			}
		})
	}
}
