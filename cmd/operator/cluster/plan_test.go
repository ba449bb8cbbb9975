package cluster

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

// settled is a cluster of n nodes as it should be.
func settled(n int) *Seen {
	s := &Seen{
		Wanted: n, Template: "t", SizeBytes: 10, Set: &Set{Replicas: n, Template: "t", SizeBytes: 10, Available: n, Settled: true},
		Pods: map[int]Pod{}, Claims: map[int]Claim{}, Broker: &Broker{Nodes: map[int]string{}, Removal: -1}, Answers: map[Question]Answer{},
		Founded: true,
	}
	for i := range n {
		s.Pods[i], s.Claims[i], s.Broker.Nodes[i] = Pod{Ready: true, Current: true}, Claim{SizeBytes: 10, Growable: true}, running
	}
	return s
}

// outdate makes the pods those of a former template.
func outdate(s *Seen) {
	for i, p := range s.Pods {
		p.Current = false
		s.Pods[i] = p
	}
}

// unfounded makes it one that was not founded before two more nodes were wanted.
func unfounded(s *Seen) {
	s.Broker, s.Founded, s.Wanted = nil, false, len(s.Pods)+2
	for i := range s.Pods {
		s.Pods[i] = Pod{Current: true}
	}
}

// Each row is a situation, the step that it calls for, and what is said to be blocked.
func TestPlan(t *testing.T) {
	for name, x := range map[string]struct {
		n       int
		change  func(s *Seen)
		do      Action
		node    int
		to      int
		blocked string // condition and reason
	}{
		"nothing to do":                 {3, func(*Seen) {}, Nothing, 0, 0, ""},
		"a new cluster":                 {3, func(s *Seen) { s.Set, s.Pods, s.Claims, s.Broker = nil, nil, nil, nil }, CreateSet, 0, 3, ""},
		"claims of five":                {5, func(s *Seen) { s.Set, s.Pods, s.Broker, s.Wanted = nil, nil, nil, 3 }, CreateSet, 0, 5, ""},
		"a change not seen":             {3, func(s *Seen) { s.Set.Settled, s.Wanted = false, 5 }, Wait, 0, 0, ""},
		"no answer":                     {3, func(s *Seen) { s.Broker, s.Wanted = nil, 1 }, Wait, 0, 0, ""},
		"more nodes":                    {3, func(s *Seen) { s.Wanted = 5 }, SetReplicas, 0, 5, ""},
		"more, a claim left":            {3, func(s *Seen) { s.Wanted, s.Claims[3] = 5, Claim{GivenUp: true} }, DeleteClaim, 3, 0, ""},
		"more, a claim known to nobody": {3, func(s *Seen) { s.Wanted, s.Claims[3] = 4, Claim{} }, Nothing, 0, 0, v1alpha1.ConditionScaleUpBlocked + "/ClaimLeft " + v1alpha1.ConditionVolumesLeft + "/Retained"},
		"fewer: ask":                    {5, func(s *Seen) { s.Wanted = 3 }, Ask, 4, 0, ""},
		"fewer: mark":                   {5, func(s *Seen) { s.Wanted, s.Answers[Question{MayRemove, 4}] = 3, "" }, MarkLeaving, 4, 0, ""},
		"fewer: refused":                {5, func(s *Seen) { s.Wanted, s.Answers[Question{MayRemove, 4}] = 3, "its only member" }, Nothing, 0, 0, v1alpha1.ConditionScaleDownBlocked + "/Refused"},
		"fewer, one is down":            {5, func(s *Seen) { s.Wanted, s.Broker.Nodes[0] = 3, "down" }, Nothing, 0, 0, v1alpha1.ConditionScaleDownBlocked + "/NodesMissing"},
		"fewer: remove": {5, func(s *Seen) {
			s.Wanted, s.Answers[Question{MayRemove, 4}], s.Claims[4] = 3, "", Claim{SizeBytes: 10, Leaving: true}
		}, RemoveNode, 4, 0, ""},
		"fewer: under way": {5, func(s *Seen) { s.Wanted, s.Broker.Removal = 3, 4 }, Wait, 0, 0, ""},
		"fewer: forgotten": {5, func(s *Seen) { s.Wanted = 3; delete(s.Broker.Nodes, 4) }, GiveUpClaim, 4, 0, ""},
		"fewer: given up": {5, func(s *Seen) {
			s.Wanted, s.Claims[4] = 3, Claim{SizeBytes: 10, GivenUp: true}
			delete(s.Broker.Nodes, 4)
		}, SetReplicas, 0, 4, ""},
		"wanted again":            {5, func(s *Seen) { s.Broker.Removal = 4 }, CancelRemoval, 4, 0, ""},
		"wanted again, drained":   {5, func(s *Seen) { s.Broker.Nodes[4], s.Claims[4] = draining, Claim{SizeBytes: 10, Leaving: true} }, Undrain, 4, 0, ""},
		"drained by a person":     {5, func(s *Seen) { s.Broker.Nodes[4] = draining }, Nothing, 0, 0, ""},
		"forgotten, wanted again": {5, func(s *Seen) { s.Claims[4] = Claim{SizeBytes: 10, Leaving: true}; delete(s.Broker.Nodes, 4) }, GiveUpClaim, 4, 0, ""},
		"claims kept":             {3, func(s *Seen) { s.KeepVolumes, s.Claims[3] = true, Claim{GivenUp: true} }, Nothing, 0, 0, v1alpha1.ConditionVolumesLeft + "/Retained"},
		"claims not kept":         {3, func(s *Seen) { s.Claims[3] = Claim{GivenUp: true} }, DeleteClaim, 3, 0, ""},
		"a claim of nobody":       {3, func(s *Seen) { s.Claims[3] = Claim{} }, Nothing, 0, 0, v1alpha1.ConditionVolumesLeft + "/Retained"},
		"a node without pod":      {3, func(s *Seen) { s.Broker.Nodes[3] = "down" }, Ask, 3, 0, ""},
		"without pod, busy":       {3, func(s *Seen) { s.Broker.Nodes[3], s.Broker.Busy = "down", "forget-node" }, Wait, 0, 0, ""},
		"without pod, lossy":      {3, func(s *Seen) { s.Broker.Nodes[3], s.Answers[Question{MayForget, 3}] = "down", "LOST: q" }, Nothing, 0, 0, v1alpha1.ConditionScaleDownBlocked + "/Refused"},
		"lossy, claim marked": {3, func(s *Seen) {
			s.Broker.Nodes[3], s.Claims[3], s.Answers[Question{MayForget, 3}] = "down", Claim{GivenUp: true}, "LOST: q"
		}, Nothing, 0, 0, v1alpha1.ConditionScaleDownBlocked + "/Refused"},
		"without pod, free":    {3, func(s *Seen) { s.Broker.Nodes[3], s.Answers[Question{MayForget, 3}] = "down", "" }, ForgetNode, 3, 0, ""},
		"wanted, without pod":  {3, func(s *Seen) { s.Wanted, s.Broker.Nodes[3] = 4, "down" }, SetReplicas, 0, 4, ""},
		"wanted, claim marked": {3, func(s *Seen) { s.Wanted, s.Broker.Nodes[3], s.Claims[3] = 4, "down", Claim{GivenUp: true} }, SetReplicas, 0, 4, ""},
		"marked, and running":  {3, func(s *Seen) { s.Claims[1] = Claim{SizeBytes: 10, GivenUp: true} }, UnmarkClaim, 1, 0, ""},
		"scaled by hand":       {3, func(s *Seen) { s.Set.Replicas, s.Broker, s.Pods = 1, nil, map[int]Pod{0: {Current: true}} }, SetReplicas, 0, 3, ""},
		"by hand, pods are going": {3, func(s *Seen) {
			s.Set.Replicas, s.Broker, s.Pods = 1, nil, map[int]Pod{0: {Current: true}, 1: {Going: true}}
		}, Wait, 0, 0, ""},
		"its volume is there":                {3, func(s *Seen) { s.Broker.Nodes[3], s.Claims[3] = "down", Claim{} }, SetReplicas, 0, 4, ""},
		"new template":                       {3, func(s *Seen) { s.Template = "u" }, ChangeSet, 0, 0, ""},
		"new, paused":                        {3, func(s *Seen) { s.Template, s.Paused = "u", true }, Nothing, 0, 0, v1alpha1.ConditionUpgradeBlocked + "/Paused"},
		"roll: ask":                          {3, outdate, Ask, 2, 0, ""},
		"roll: take":                         {3, func(s *Seen) { outdate(s); s.Answers[Question{MayTakeDown, 2}] = "" }, TakePod, 2, 0, ""},
		"roll: ready, and not yet available": {3, func(s *Seen) { outdate(s); s.Set.Available, s.Answers[Question{MayTakeDown, 2}] = 2, "" }, Wait, 0, 0, ""},
		"roll: all but the unready one are available": {3, func(s *Seen) {
			outdate(s)
			s.Pods[0], s.Set.Available, s.Answers[Question{MayTakeDown, 0}] = Pod{}, 2, ""
		}, TakePod, 0, 0, ""},
		"roll: beside the unready one another is not available": {3, func(s *Seen) {
			outdate(s)
			s.Pods[0], s.Set.Available, s.Answers[Question{MayTakeDown, 0}] = Pod{}, 1, ""
		}, Wait, 0, 0, ""},
		"rolled, and not yet available": {3, func(s *Seen) { s.Set.Available = 2 }, Wait, 0, 0, ""},
		"roll: not safe":                {3, func(s *Seen) { outdate(s); s.Answers[Question{MayTakeDown, 2}] = "no" }, Nothing, 0, 0, v1alpha1.ConditionUpgradeBlocked + "/NotSafe"},
		"roll: one starts":              {3, func(s *Seen) { outdate(s); s.Pods[1] = Pod{Current: true} }, Wait, 0, 0, ""},
		"roll: one unready":             {3, func(s *Seen) { outdate(s); s.Pods[0] = Pod{}; s.Answers[Question{MayTakeDown, 0}] = "" }, TakePod, 0, 0, ""},
		"roll: cannot start":            {3, func(s *Seen) { outdate(s); s.Pods[0], s.Pods[1] = Pod{Broken: true}, Pod{Broken: true} }, TakePod, 1, 0, ""},
		"roll: its claim is being deleted": {3, func(s *Seen) {
			outdate(s)
			s.Claims[2], s.Answers[Question{MayTakeDown, 2}] = Claim{SizeBytes: 10, Going: true}, ""
		}, Nothing, 0, 0, v1alpha1.ConditionUpgradeBlocked + "/ClaimGoing"},
		"roll: it cannot start, and its claim is being deleted": {3, func(s *Seen) {
			outdate(s)
			s.Pods[2], s.Claims[2], s.Answers[Question{MayTakeDown, 2}] = Pod{Broken: true}, Claim{SizeBytes: 10, Going: true}, ""
		}, Nothing, 0, 0, v1alpha1.ConditionUpgradeBlocked + "/ClaimGoing"},
		"roll: two cannot start, and the claim of one is being deleted": {3, func(s *Seen) {
			outdate(s)
			s.Pods[1], s.Pods[2], s.Claims[2] = Pod{Broken: true}, Pod{Broken: true}, Claim{SizeBytes: 10, Going: true}
		}, TakePod, 1, 0, v1alpha1.ConditionUpgradeBlocked + "/ClaimGoing"},
		"its claim is being deleted, and it need not change": {3, func(s *Seen) { s.Claims[2] = Claim{SizeBytes: 10, Going: true} }, Nothing, 0, 0, ""},
		"none serves, and a claim is being deleted": {3, func(s *Seen) {
			s.Pods, s.Broker, s.Claims[2] = map[int]Pod{0: {}, 1: {}, 2: {}}, nil, Claim{SizeBytes: 10, Going: true}
		}, TakePod, 1, 0, v1alpha1.ConditionUpgradeBlocked + "/ClaimGoing"},
		"none serves, and the claim of the last one to change is being deleted": {3, func(s *Seen) {
			s.Pods, s.Broker, s.Claims[2] = map[int]Pod{0: {Current: true}, 1: {Current: true}, 2: {}}, nil, Claim{SizeBytes: 10, Going: true}
		}, Wait, 0, 0, v1alpha1.ConditionUpgradeBlocked + "/ClaimGoing"},
		"none serves":                      {3, func(s *Seen) { s.Pods, s.Broker = map[int]Pod{0: {}, 1: {}, 2: {}}, nil }, TakePod, 2, 0, ""},
		"none serves, and more are wanted": {3, func(s *Seen) { unfounded(s); s.Founded = true }, Wait, 0, 0, ""},
		"not founded":                      {3, unfounded, SetReplicas, 0, 5, ""},
		"not founded, fewer are wanted":    {3, func(s *Seen) { unfounded(s); s.Wanted = 1 }, Wait, 0, 0, ""},
		"not founded, lacking":             {3, func(s *Seen) { unfounded(s); s.Lacks = "a key" }, Wait, 0, 0, ""},
		"not founded, one serves":          {3, func(s *Seen) { unfounded(s); s.Pods[1] = Pod{Serves: true, Current: true} }, Wait, 0, 0, ""},
		"not founded, a former claim goes": {3, func(s *Seen) { unfounded(s); s.Claims[4] = Claim{Going: true} }, Wait, 0, 0, ""},
		"not founded, a claim is marked":   {3, func(s *Seen) { unfounded(s); s.Claims[4] = Claim{GivenUp: true} }, Wait, 0, 0, ""},
		"one serves, for a moment or by a clock that is ahead": {3, func(s *Seen) {
			s.Pods, s.Broker = map[int]Pod{0: {}, 1: {Serves: true}, 2: {}}, nil
		}, Wait, 0, 0, ""},
		"lost: ask": {3, func(s *Seen) { s.Pods[1] = Pod{Current: true}; s.Broker.Nodes[1] = refused }, Ask, 1, 0, ""},
		"lost: replace": {3, func(s *Seen) {
			s.Pods[1] = Pod{Current: true}
			s.Broker.Nodes[1], s.Answers[Question{MayReplace, 1}] = refused, ""
		}, ReplaceNode, 1, 0, ""},
		"lost: by hand": {3, func(s *Seen) { s.Pods[1] = Pod{Current: true}; s.Broker.Nodes[1], s.ReplaceByHand = refused, true }, Wait, 0, 0, v1alpha1.ConditionReplaceBlocked + "/Manual"},
		"lost: with messages": {3, func(s *Seen) {
			s.Pods[1] = Pod{Current: true}
			s.Broker.Nodes[1], s.Answers[Question{MayReplace, 1}] = refused, "LOST: q"
		}, Wait, 0, 0, v1alpha1.ConditionReplaceBlocked + "/Refused"},
		"lost: given up before": {3, func(s *Seen) {
			s.Broker.Nodes[1], s.Answers[Question{MayReplace, 1}] = refused, vacant
			s.Pods[1] = Pod{Current: true}
		}, Wait, 0, 0, ""},
		"another volume": {3, func(s *Seen) {
			s.Broker.Nodes[1], s.Answers[Question{MayReplace, 1}] = refused, otherData
			s.Pods[1] = Pod{Current: true}
		}, Wait, 0, 0, v1alpha1.ConditionReplaceBlocked + "/OtherData"},
		"a view that is behind": {3, func(s *Seen) { s.Broker.Nodes[1] = refused }, Nothing, 0, 0, ""},
		"larger":                {3, func(s *Seen) { s.SizeBytes = 20 }, GrowClaim, 0, 0, ""},
		"larger: all are": {3, func(s *Seen) {
			s.SizeBytes = 20
			s.Claims = map[int]Claim{0: {SizeBytes: 20}, 1: {SizeBytes: 20}, 2: {SizeBytes: 20}}
		}, OrphanSet, 0, 0, ""},
		"hands off: nothing serves": {3, func(s *Seen) {
			s.Set.Replicas, s.Broker, s.Pods, s.HandsOff = 0, nil, nil, "recovery"
		}, Wait, 0, 0, v1alpha1.ConditionHandsOff + "/Asked"},
		"hands off: no StatefulSet": {3, func(s *Seen) { s.Set, s.HandsOff = nil, "recovery" }, Wait, 0, 0, v1alpha1.ConditionHandsOff + "/Asked"},
		"hands off: a new template": {3, func(s *Seen) { s.Template, s.HandsOff = "u", "recovery" }, Wait, 0, 0, v1alpha1.ConditionHandsOff + "/Asked"},
		"a size that is taken back": {3, func(s *Seen) { s.Set.SizeBytes = 20 }, OrphanSet, 0, 0, ""},
		"a size that is taken back, one has grown to it": {3, func(s *Seen) {
			s.Set.SizeBytes, s.Claims[1] = 20, Claim{SizeBytes: 20}
		}, Nothing, 0, 0, v1alpha1.ConditionStorageBlocked + "/CannotShrink"},
		"larger: refused": {3, func(s *Seen) {
			s.SizeBytes, s.Set.SizeBytes, s.Claims[1] = 20, 20, Claim{SizeBytes: 10, Growable: true, Refused: "exceeded quota"}
			s.Claims[0], s.Claims[2] = Claim{SizeBytes: 20}, Claim{SizeBytes: 20}
		}, Nothing, 0, 0, v1alpha1.ConditionStorageBlocked + "/Refused"},
		"larger: refused, the next one is tried": {3, func(s *Seen) {
			s.SizeBytes, s.Claims[0] = 20, Claim{SizeBytes: 10, Growable: true, Refused: "exceeded quota"}
		}, GrowClaim, 1, 0, ""},
		"larger: refused, and a new template": {3, func(s *Seen) {
			s.SizeBytes, s.Template = 20, "u"
			for i := range 3 {
				s.Claims[i] = Claim{SizeBytes: 10, Growable: true, Refused: "exceeded quota"}
			}
		}, ChangeSet, 0, 0, v1alpha1.ConditionStorageBlocked + "/Refused"},
		"too old: as it was": {3, func(s *Seen) { s.TooOld = "it reads 6" }, Nothing, 0, 0, v1alpha1.ConditionUpgradeBlocked + "/TooOld"},
		"too old: the first pod is broken": {3, func(s *Seen) {
			s.TooOld, s.Set.Template, s.Set.Available = "it reads 6", "u", 2
			s.Pods[2] = Pod{Current: true, Broken: true, TooOld: 6}
		}, ChangeSet, 0, 0, v1alpha1.ConditionUpgradeBlocked + "/TooOld"},
		"too old: it is taken back": {3, func(s *Seen) {
			s.TooOld, s.Set.Available = "it reads 6", 2
			s.Pods[2] = Pod{Broken: true, TooOld: 6}
		}, TakePod, 2, 0, v1alpha1.ConditionUpgradeBlocked + "/TooOld"},
		"too old: other settings": {3, func(s *Seen) { s.TooOld, s.Template = "it reads 6", "u" }, ChangeSet, 0, 0, v1alpha1.ConditionUpgradeBlocked + "/TooOld"},
		"lacking: a new cluster":  {3, func(s *Seen) { s.Set, s.Pods, s.Claims, s.Broker, s.Lacks = nil, nil, nil, nil, "a key" }, Wait, 0, 0, ""},
		"lacking: a new template": {3, func(s *Seen) { s.Template, s.Lacks = "u", "a key" }, Nothing, 0, 0, v1alpha1.ConditionUpgradeBlocked + "/ObjectsBlocked"},
		"lacking: roll":           {3, func(s *Seen) { outdate(s); s.Lacks = "a key" }, Nothing, 0, 0, v1alpha1.ConditionUpgradeBlocked + "/ObjectsBlocked"},
		"lacking: more nodes":     {3, func(s *Seen) { s.Wanted, s.Lacks = 5, "a key" }, Nothing, 0, 0, v1alpha1.ConditionScaleUpBlocked + "/ObjectsBlocked"},
		"lacking: larger":         {3, func(s *Seen) { s.Set.SizeBytes, s.Lacks = 5, "a key" }, Nothing, 0, 0, ""},
		"lacking: none serves":    {3, func(s *Seen) { s.Pods, s.Broker, s.Lacks = map[int]Pod{0: {}, 1: {}, 2: {}}, nil, "a key" }, Wait, 0, 0, ""},
		"lacking: fewer nodes":    {5, func(s *Seen) { s.Wanted, s.Lacks = 3, "a key" }, Ask, 4, 0, ""},
		"lacking: a volume is lost": {3, func(s *Seen) {
			s.Pods[1], s.Lacks = Pod{Current: true}, "a key"
			s.Broker.Nodes[1], s.Answers[Question{MayReplace, 1}] = refused, ""
		}, ReplaceNode, 1, 0, ""},
		"larger: cannot": {3, func(s *Seen) {
			s.SizeBytes, s.Claims[1] = 20, Claim{SizeBytes: 10}
			s.Claims[0], s.Claims[2] = Claim{SizeBytes: 20}, Claim{SizeBytes: 20}
		}, OrphanSet, 0, 0, v1alpha1.ConditionStorageBlocked + "/NotExpandable"},
		"larger: cannot, the set is made": {3, func(s *Seen) {
			s.SizeBytes, s.Set.SizeBytes, s.Claims[1] = 20, 20, Claim{SizeBytes: 10}
			s.Claims[0], s.Claims[2] = Claim{SizeBytes: 20}, Claim{SizeBytes: 20}
		}, Nothing, 0, 0, v1alpha1.ConditionStorageBlocked + "/NotExpandable"},
		"larger: cannot, a claim goes": {3, func(s *Seen) {
			s.SizeBytes, s.Claims[1], s.Claims[2] = 20, Claim{SizeBytes: 10}, Claim{SizeBytes: 10, Going: true}
			s.Claims[0] = Claim{SizeBytes: 20}
		}, Nothing, 0, 0, v1alpha1.ConditionStorageBlocked + "/NotExpandable"},
	} {
		s := settled(x.n)
		x.change(s)
		step, blocks := Plan(s)
		if step.Do != x.do || step.Node != x.node || step.Replicas != x.to || step.Why == "" {
			t.Errorf("%s: %v %+v, want %v of node %d, %d replicas", name, step.Do, step, x.do, x.node, x.to)
		}
		var got []string
		for _, b := range blocks {
			got = append(got, b.Condition+"/"+b.Reason)
			if b.Message == "" {
				t.Errorf("%s: %s has no message", name, b.Condition)
			}
		}
		if all := strings.Join(got, " "); all != x.blocked {
			t.Errorf("%s: blocked %q, want %q", name, all, x.blocked)
		}
	}
}

// While something is changed, or the broker may let it go on, the next look comes soon. What only people end may last for days, and
// what they do causes a look.
func TestAgain(t *testing.T) {
	for name, x := range map[string]struct {
		change func(s *Seen)
		soon   bool
	}{
		"nothing to do":              {func(*Seen) {}, false},
		"a step":                     {func(s *Seen) { s.Template = "u" }, true},
		"a wait":                     {func(s *Seen) { s.Pods[1] = Pod{Current: true} }, true},
		"no answer":                  {func(s *Seen) { s.Broker = nil }, true},
		"not safe":                   {func(s *Seen) { outdate(s); s.Answers[Question{MayTakeDown, 2}] = "no" }, true},
		"lacking":                    {func(s *Seen) { outdate(s); s.Lacks = "a key" }, true},
		"paused":                     {func(s *Seen) { outdate(s); s.Paused = true }, false},
		"paused, and a pod is away":  {func(s *Seen) { outdate(s); s.Paused = true; delete(s.Pods, 1) }, true},
		"hands off":                  {func(s *Seen) { s.HandsOff = "recovery" }, false},
		"too old":                    {func(s *Seen) { s.TooOld = "it reads 6" }, false},
		"a claim of nobody":          {func(s *Seen) { s.Claims[3] = Claim{} }, false},
		"a claim known to nobody":    {func(s *Seen) { s.Wanted, s.Claims[3] = 4, Claim{} }, false},
		"its claim is being deleted": {func(s *Seen) { outdate(s); s.Claims[2] = Claim{SizeBytes: 10, Going: true} }, false},
	} {
		s := settled(3)
		x.change(s)
		step, blocks := Plan(s)
		if after := (&pass{seen: s, blocks: blocks}).again(step); (after == soon) != x.soon {
			t.Errorf("%s: the next look is after %v; %+v, %+v", name, after, step, blocks)
		}
	}
	if after := (&pass{}).again(Step{Do: Wait}); after != soon {
		t.Errorf("nothing was seen: the next look is after %v", after)
	}
}
