package liveness

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/pulse"
	"github.com/quorate/quorate/id"
)

// start is when the clock of these tests begins.
func start() time.Time { return time.Unix(1000, 0) }

func newTestCore(n id.NodeID) *core { return newCore(Config{Node: n}.withDefaults()) }

func follower(leader id.NodeID, term uint64) observed {
	return observed{voters: []id.NodeID{"a", "b", "c"}, state: raft.Follower, leader: leader, term: term}
}

func leads(self id.NodeID, term uint64) observed {
	return observed{voters: []id.NodeID{"a", "b", "c"}, state: raft.Leader, leader: self, term: term, proven: true}
}

// What is known of a connection decides whether its peer is lost.
func TestLook(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		name   string
		silent time.Duration
		up     bool
		dead   bool
		slept  bool // this node itself did not run
		lost   bool
	}{
		{name: "answers", up: true},
		{name: "has not answered", silent: 399 * ms, up: true},
		{name: "silent", silent: 400 * ms, up: true, lost: true},
		{name: "reset", lost: true},
		{name: "dead by gossip, answers", up: true, dead: true},
		{name: "dead by gossip, silent", silent: 200 * ms, up: true, dead: true, lost: true},
		{name: "silent after this node slept", silent: 5000 * ms, up: true, slept: true},
		{name: "reset after this node slept", slept: true, lost: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newTestCore("a")
			now := start()
			k.awake(now, 50*ms)
			k.judge(now, "b", false)
			if now = now.Add(50 * ms); c.slept {
				now = now.Add(5000 * ms)
			}
			k.awake(now, 50*ms)
			k.look(now, "b", c.silent, c.up, c.dead)
			if k.peer("b").lost != c.lost {
				t.Errorf("lost is %v", !c.lost)
			}
		})
	}
}

// When a group is in need, and when it is surveyed.
func TestNeeds(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		name string
		do   func(k *core, now time.Time)
		need bool
		at   time.Duration // of the survey; 0: at once, negative: never
	}{
		{"leader lives", func(*core, time.Time) {}, false, -1},
		{"leader's node is lost", func(k *core, now time.Time) { k.judge(now, "b", true) }, true, 0},
		{"all others are lost", func(k *core, now time.Time) { k.judge(now, "b", true); k.judge(now, "c", true) }, true, -1},
		{"another node is lost", func(k *core, now time.Time) { k.judge(now, "c", true) }, false, -1},
		{"leader's disk hangs", func(k *core, now time.Time) { k.heartbeat(now, "b", pulse.Heartbeat{Stalled: true}) }, true, 0},
		{"own disk hangs, too", func(k *core, now time.Time) { k.stalled = true; k.judge(now, "b", true) }, true, -1},
		{"leader unknown", func(k *core, now time.Time) { k.observe(now, 1, follower("", 5)) }, true, 300 * ms},
		{"leader denies", func(k *core, now time.Time) { k.deny(now, "b", belief{1, 5}) }, true, 0},
		{"leader denied an older term", func(k *core, now time.Time) { k.deny(now, "b", belief{1, 4}) }, false, -1},
		{"denied, then heard again", func(k *core, now time.Time) {
			k.deny(now, "b", belief{1, 5})
			k.observe(now, 1, follower("b", 6))
		}, false, -1},
		{"no voter", func(k *core, now time.Time) {
			o := follower("", 5)
			o.voters = []id.NodeID{"b", "c", "d"}
			k.observe(now, 1, o)
		}, false, -1},
		{"leads", func(k *core, now time.Time) { k.observe(now, 1, leads("a", 6)); k.judge(now, "b", true) }, false, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newTestCore("a")
			now := start()
			k.judge(now, "b", false)
			k.judge(now, "c", false)
			k.observe(now, 1, follower("b", 5))
			c.do(k, now)
			if (k.needs[1] != nil) != c.need {
				t.Errorf("in need: %v", !c.need)
			}
			for d := time.Duration(0); d <= time.Second; d += 10 * ms {
				surveyed := slices.Contains(k.tick(now.Add(d)).survey, 1)
				if surveyed && d != c.at {
					t.Fatalf("surveyed after %v, want %v", d, c.at)
				}
				if surveyed {
					return
				}
			}
			if c.at >= 0 {
				t.Errorf("not surveyed")
			}
		})
	}
}

// What answers let a member do. Its own log ends at index 10 of term 5.
func TestConclude(t *testing.T) {
	votes := func(term, index uint64) Answer { return Answer{Votes: true, LastTerm: term, LastIndex: index} }
	for _, c := range []struct {
		name     string
		answers  map[id.NodeID]Answer
		campaign bool
	}{
		{"the other log is older", map[id.NodeID]Answer{"c": votes(5, 9)}, true},
		{"the other log is newer", map[id.NodeID]Answer{"c": votes(5, 11)}, false},
		{"the other log is of a newer term", map[id.NodeID]Answer{"c": votes(6, 1)}, false},
		{"nobody answers", nil, false},
		{"the other does not vote", map[id.NodeID]Answer{"c": {}}, false},
		{"the other knows a leader", map[id.NodeID]Answer{"c": {Votes: true, HasLiveLeader: true}}, false},
		{"one knows a leader, one agrees", map[id.NodeID]Answer{"b": {Votes: true, HasLiveLeader: true}, "c": votes(5, 9)}, true},
		{"the other leads", map[id.NodeID]Answer{"b": votes(5, 9), "c": {Leads: true}}, false},
		{"the other stands", map[id.NodeID]Answer{"c": {Votes: true, Campaigning: true}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newTestCore("a")
			now := start()
			k.judge(now, "c", false)
			k.observe(now, 1, follower("b", 5))
			if !slices.Contains(k.tick(now).survey, 1) {
				t.Fatal("not surveyed")
			}
			if got := k.conclude(now, Surveyed{1, 5, 10}, c.answers); got != c.campaign {
				t.Errorf("campaigns: %v", got)
			}
			if c.campaign {
				return
			}
			if k.groups[1].busy || len(k.tick(now).survey) > 0 {
				t.Error("it does not wait")
			}
			if len(k.tick(now.Add(2*time.Second)).survey) == 0 {
				t.Error("it does not try again")
			}
		})
	}
}

// standsFirst reports whether the member of a node stands at once for a group whose logs are equal, except for those
// of nodes that are behind, on the nodes a, b and c, of which some drain.
func standsFirst(t *testing.T, self, formerly id.NodeID, behind, drain []id.NodeID) bool {
	t.Helper()
	const group, index = 1, 10
	k := newTestCore(self)
	k.config.Drains = func(n id.NodeID) bool { return slices.Contains(drain, n) }
	now := start()
	last := func(n id.NodeID) uint64 {
		if slices.Contains(behind, n) {
			return index - 1
		}
		return index
	}
	answers := map[id.NodeID]Answer{}
	for _, n := range []id.NodeID{"a", "b", "c"} {
		if n != self {
			k.judge(now, n, false)
			answers[n] = Answer{Votes: true, LastTerm: 5, LastIndex: last(n)}
		}
	}
	k.observe(now, group, follower("", 5))
	k.requestElection(now, group, formerly)
	if !slices.Contains(k.tick(now).survey, group) {
		t.Fatal("not surveyed")
	}
	return k.conclude(now, Surveyed{Group: group, LastTerm: 5, LastIndex: last(self)}, answers)
}

// Of members whose logs are equal, those of nodes that drain stand last, though one of them led the group formerly; if
// all drain, or only they have the newest log, they stand as ever.
func TestDrainingStandLast(t *testing.T) {
	for name, x := range map[string]struct {
		formerly      id.NodeID
		behind, drain []id.NodeID
		first         []id.NodeID // one of them stands first
	}{
		"the former leader":                {"a", nil, []id.NodeID{"a"}, []id.NodeID{"b", "c"}},
		"two, and the former leader":       {"b", nil, []id.NodeID{"a", "b"}, []id.NodeID{"c"}},
		"two, and no former leader":        {"", nil, []id.NodeID{"b", "c"}, []id.NodeID{"a"}},
		"another than the former leader":   {"a", nil, []id.NodeID{"b"}, []id.NodeID{"a"}},
		"all":                              {"c", nil, []id.NodeID{"a", "b", "c"}, []id.NodeID{"c"}},
		"the only one with all of the log": {"", []id.NodeID{"b", "c"}, []id.NodeID{"a"}, []id.NodeID{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			var stand []id.NodeID
			for _, self := range []id.NodeID{"a", "b", "c"} {
				if standsFirst(t, self, x.formerly, x.behind, x.drain) {
					stand = append(stand, self)
				}
			}
			if len(stand) != 1 || !slices.Contains(x.first, stand[0]) {
				t.Errorf("%q stand, want one of %q", stand, x.first)
			}
		})
	}
}

// Of members whose logs are equal, that of the node which led the group formerly stands first; without such a node, lots
// decide, and only one member takes itself for the first.
func TestFormerLeaderStandsFirst(t *testing.T) {
	all := []id.NodeID{"a", "b", "c"}
	stands := func(self, formerly id.NodeID, behind ...id.NodeID) bool {
		return standsFirst(t, self, formerly, behind, nil)
	}
	for _, formerly := range all {
		for _, self := range all {
			if got := stands(self, formerly); got != (self == formerly) {
				t.Errorf("%s led, and %s stands: %v", formerly, self, got)
			}
		}
		if stands(formerly, formerly, formerly) {
			t.Errorf("%s stands first, though others have newer logs", formerly)
		}
	}
	first := 0
	for _, self := range all {
		if stands(self, "") {
			first++
		}
	}
	if first != 1 {
		t.Errorf("without a former leader %d members take themselves for the first", first)
	}
}

// A member without a configuration votes: it may have voted for a leader that is dead
// now, and nobody else would bring it one.
func TestAnswerOfNewMember(t *testing.T) {
	k := newTestCore("a")
	now := start()
	k.judge(now, "b", false)
	k.observe(now, 1, observed{state: raft.Follower, leader: "b", term: 2})
	if a := k.answer(now, 1); a.Votes != true || !a.HasLiveLeader {
		t.Errorf("its leader lives: %+v", a)
	}
	k.look(now, "b", 200*time.Millisecond, true, false)
	if a := k.answer(now, 1); !a.Votes || a.HasLiveLeader || len(k.needs) > 0 {
		t.Errorf("its leader is late: %+v, in need: %v", a, len(k.needs) > 0)
	}
	k.look(now, "b", 0, true, false)
	if a := k.answer(now, 1); !a.HasLiveLeader {
		t.Errorf("its leader is back: %+v", a)
	}
	k.judge(now, "b", true)
	if a := k.answer(now, 1); !a.Votes || a.HasLiveLeader {
		t.Errorf("its leader is lost: %+v", a)
	}
	if a := k.answer(now, 2); a.Votes {
		t.Errorf("no member: %+v", a)
	}
}

// A member without a configuration counts on the leader that it voted for, and no heartbeat can show that this one
// has stepped down since. So the leader is asked when that stands in the way of an election.
func TestNewMemberCountsOnWhoSteppedDown(t *testing.T) {
	k := newTestCore("a")
	now := start()
	k.judge(now, "b", false)
	k.heartbeat(now, "b", pulse.Heartbeat{})
	k.observe(now, 1, observed{state: raft.Follower, leader: "b", term: 2})
	if len(k.tick(now).ask) > 0 || !k.idle() {
		t.Fatal("the leader is asked, though nobody needs to know")
	}
	if a := k.answer(now, 1); !a.HasLiveLeader {
		t.Fatalf("its leader lives: %+v", a)
	}
	if k.idle() || !slices.Equal(k.tick(now).ask, []id.NodeID{"b"}) || !k.idle() {
		t.Fatal("the leader is not asked once")
	}
	asked := k.ledBy("b")
	if !slices.Equal(asked, []belief{{1, 2}}) {
		t.Fatalf("asked for %v", asked)
	}
	k.answer(now, 1)
	if len(k.tick(now).ask) > 0 || len(k.tick(now.Add(k.config.MismatchAfter)).ask) != 1 {
		t.Error("the leader is asked at each survey")
	}
	k.deny(now, "b", asked[0])
	if a := k.answer(now, 1); !a.Votes || a.HasLiveLeader || len(k.ledBy("b")) > 0 {
		t.Errorf("its leader has stepped down: %+v", a)
	}
	k.observe(now, 1, observed{state: raft.Follower, leader: "b", term: 3})
	if a := k.answer(now, 1); !a.HasLiveLeader {
		t.Errorf("its leader is elected again: %+v", a)
	}
}

// Two survivors that find their leader's node lost at about the same time never stand
// against each other: not at first, and not after both were stuck.
func TestSurvivorsTakeTurns(t *testing.T) {
	const groups = 500
	cores := map[id.NodeID]*core{"a": newTestCore("a"), "c": newTestCore("c")}
	other := map[id.NodeID]id.NodeID{"a": "c", "c": "a"}
	now := start()
	logs := map[id.NodeID]func(id.GroupID) Surveyed{}
	for n, k := range cores {
		k.config.MaxElections = groups
		k.judge(now, other[n], false)
		k.judge(now, "b", false)
		logs[n] = func(g id.GroupID) Surveyed { // equal for a third, else one of them is ahead
			return Surveyed{g, 5, 10 + uint64(g)%3*mixNode(n, 0)%3}
		}
		for g := range id.GroupID(groups) {
			k.observe(now, g, follower("b", 5))
		}
	}
	stood := map[id.GroupID][]id.NodeID{}
	round := func(stuck bool) {
		for _, k := range cores {
			k.judge(now, "b", true)
			if stuck {
				for g := range id.GroupID(groups) {
					k.observe(now, g, observed{voters: []id.NodeID{"a", "b", "c"}, state: raft.Candidate, term: 6})
				}
				later := now.Add(maxWait)
				if n := len(k.tick(later).stepDown); n != groups {
					t.Fatalf("%d of %d stuck candidates are helped", n, groups)
				}
				for g := range id.GroupID(groups) {
					k.observe(later, g, follower("", 7))
					k.acted(later, g)
				}
			}
		}
		if stuck {
			now = now.Add(maxWait + time.Second)
		}
		asked := map[id.NodeID][]id.GroupID{}
		answers := map[id.NodeID]map[id.GroupID]Answer{"a": {}, "c": {}}
		for n, k := range cores {
			asked[n] = k.tick(now).survey
		}
		for n := range cores { // both are asked before either has decided
			for _, g := range asked[n] {
				a := cores[other[n]].answer(now, g)
				log := logs[other[n]](g)
				a.LastTerm, a.LastIndex = log.LastTerm, log.LastIndex
				answers[n][g] = a
			}
		}
		for n, k := range cores {
			for _, g := range asked[n] {
				if k.conclude(now, logs[n](g), map[id.NodeID]Answer{other[n]: answers[n][g]}) {
					stood[g] = append(stood[g], n)
					k.acted(now, g)
				}
			}
		}
	}
	for _, stuck := range []bool{false, true} {
		clear(stood)
		round(stuck)
		count := map[id.NodeID]int{}
		for g := range id.GroupID(groups) {
			if len(stood[g]) != 1 {
				t.Fatalf("group %d, stuck before %v: stood for election: %q", g, stuck, stood[g])
			}
			count[stood[g][0]]++
		}
		t.Logf("stuck before %v: %v", stuck, count)
	}
}

// A leader that reaches no quorum's nodes steps down, but not for a moment's silence.
func TestStarvedLeader(t *testing.T) {
	k := newTestCore("a")
	now := start()
	k.judge(now, "b", false)
	k.observe(now, 1, leads("a", 5)) // c was never seen
	tick := func(after time.Duration) bool { return len(k.tick(now.Add(after)).stepDown) > 0 }
	if tick(10 * time.Second) {
		t.Error("it reaches a quorum and steps down")
	}
	k.judge(now, "b", true)
	if tick(999 * time.Millisecond) {
		t.Error("it steps down too soon")
	}
	k.judge(now.Add(999*time.Millisecond), "c", false)
	if tick(10 * time.Second) {
		t.Error("it reaches another quorum and steps down")
	}
	k.judge(now, "c", true)
	if !tick(time.Second) || tick(time.Second) {
		t.Error("it does not step down once")
	}
}

// A leader that does not get to commit although it reaches a quorum's nodes notifies its
// followers again, and in the end gives up.
func TestUnprovenLeader(t *testing.T) {
	k := newTestCore("a")
	now := start()
	k.judge(now, "b", false)
	unproven := leads("a", 5)
	unproven.proven = false
	var did []string
	run := func(until time.Duration) string {
		did = nil
		for d := time.Duration(0); d <= until; d += 100 * time.Millisecond {
			a := k.tick(now.Add(d))
			for range a.push {
				did = append(did, "push "+d.String())
			}
			for range a.stepDown {
				did = append(did, "down "+d.String())
			}
		}
		return strings.Join(did, ", ")
	}
	k.observe(now, 1, unproven)
	if got, want := run(10*time.Second), "push 1s, push 2s, push 3s, push 4s, down 5s"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	now = now.Add(10 * time.Second)
	k.acted(now, 1) // in vain
	if got, want := run(2*time.Second), "push 0s, push 1s, push 2s"; got != want {
		t.Errorf("after it did not step down: %s; want %s", got, want)
	}
	k.observe(now, 1, leads("a", 5))
	if got := run(10 * time.Second); got != "" {
		t.Errorf("it has committed: %s", got)
	}
	k.observe(now, 1, unproven)
	k.judge(now, "b", true)
	if got := run(10 * time.Second); got != "down 1s" {
		t.Errorf("without a quorum in reach: %s", got)
	}
}

// A peer that answers, but does not say what it leads, is asked; and one whose heartbeats stay at
// odds is asked soon when something changes.
func TestOddPeers(t *testing.T) {
	k := newTestCore("a")
	now := start()
	k.judge(now, "b", false)
	k.observe(now, 1, follower("b", 5))
	k.observe(now, 2, follower("b", 5))
	asked := func(at time.Duration) bool { return len(k.tick(now.Add(at)).ask) > 0 }
	if asked(0) || !asked(300*time.Millisecond) || asked(400*time.Millisecond) || !asked(600*time.Millisecond) {
		t.Error("a peer without heartbeats is not asked")
	}
	now = now.Add(time.Minute)
	said := func(at time.Duration, count uint64) {
		k.heartbeat(now.Add(at), "b", pulse.Heartbeat{Led: count})
	}
	said(0, 7)
	for d := time.Duration(0); d < 20*time.Second; d += 100 * time.Millisecond {
		said(d, 7)
		asked(d)
	}
	now = now.Add(20 * time.Second)
	if said(0, 7); asked(0) {
		t.Error("asked at once")
	}
	if said(0, 8); !asked(0) || asked(200*time.Millisecond) {
		t.Error("not asked once after what it says has changed")
	}
}

// Heartbeats that stay at odds with what is known lead to one question, then to ever fewer.
func TestOddHeartbeats(t *testing.T) {
	k, b := newTestCore("a"), newTestCore("b")
	now := start()
	k.judge(now, "b", false)
	for g := range id.GroupID(3) {
		k.observe(now, g, follower("b", 5))
		b.observe(now, g, leads("b", 5))
	}
	var asked []time.Duration
	run := func() {
		asked = nil
		for d := time.Duration(0); d < 4*time.Second; d += 50 * time.Millisecond {
			at := now.Add(d)
			led := b.peer("a").led
			k.heartbeat(at, "b", pulse.Heartbeat{Led: led.count, LedHash: led.sum})
			if len(k.tick(at).ask) > 0 {
				asked = append(asked, d)
			}
		}
		now = now.Add(4 * time.Second)
	}
	if run(); len(asked) > 0 {
		t.Errorf("asked after %v although all agree", asked)
	}
	b.observe(now, 1, follower("", 6))
	run()
	if want := "[300ms 600ms 1.2s 2.4s]"; fmt.Sprint(asked) != want {
		t.Errorf("asked after %v, want %s", asked, want)
	}
	if got := k.ledBy("b"); len(got) != 3 {
		t.Errorf("asks for %v", got)
	}
	k.observe(now, 1, follower("c", 6))
	if run(); len(asked) > 0 {
		t.Errorf("asked after %v although all agree again", asked)
	}
}

// No more elections at a time than may be, and active groups first.
func TestElectionsAtATime(t *testing.T) {
	k := newTestCore("a")
	k.config.MaxElections = 10
	now := start()
	k.judge(now, "b", false)
	k.judge(now, "c", false)
	for g := range id.GroupID(100) {
		o := follower("b", 5)
		o.active = g >= 95
		k.observe(now, g, o)
	}
	k.judge(now, "b", true)
	due := k.tick(now).survey
	slices.Sort(due)
	if fmt.Sprint(due) != "[g0 g1 g2 g3 g4 g95 g96 g97 g98 g99]" {
		t.Errorf("first are %v", due)
	}
	if more := k.tick(now).survey; len(more) > 0 {
		t.Errorf("and then %v", more)
	}
	for _, g := range due {
		k.observe(now, g, follower("c", 6))
	}
	if more := k.tick(now).survey; len(more) != 10 {
		t.Errorf("after these have leaders, %d more", len(more))
	}
}

// Followers may have missed who leads while a connection was down.
func TestPushAfterReturn(t *testing.T) {
	k := newTestCore("a")
	now := start()
	k.judge(now, "b", false)
	for g := range id.GroupID(maxPushes + 10) {
		k.observe(now, g, leads("a", 5))
	}
	k.judge(now, "c", false)
	first, second := k.tick(now).push, k.tick(now).push
	if len(first) != maxPushes || len(second) != 10 {
		t.Errorf("%d and %d", len(first), len(second))
	}
}

// A group that is closed after a connection has come back, and before its turn, is not pushed: there is nothing to call.
// However often the connection comes back, each group is pushed once.
func TestPushOfClosedGroup(t *testing.T) {
	k := newTestCore("a")
	now := start()
	k.observe(now, 1, leads("a", 5))
	k.observe(now, 2, leads("a", 5))
	for range 3 {
		k.judge(now, "b", true)
		k.judge(now, "b", false)
	}
	k.forget(1)
	if got := k.tick(now).push; !slices.Equal(got, []id.GroupID{2}) {
		t.Errorf("groups %v are pushed, want 2 alone", got)
	}
	if !k.idle() {
		t.Error("there is more to be pushed")
	}
}

// A member without a vote that was away has missed calls as well as one with a vote:
// raft repeats none, so that it would wait for the next entry, for ever if none comes.
func TestPushAfterReturnOfNonvoter(t *testing.T) {
	k := newTestCore("a")
	now := start()
	o := leads("a", 1)
	o.nonvoters = []id.NodeID{"d"}
	k.observe(now, 1, o)
	k.observe(now, 2, leads("a", 1))
	for _, up := range []bool{true, false} {
		k.judge(now, "d", !up)
		want := []id.GroupID{1}
		if !up {
			want = nil
		}
		if got := k.tick(now).push; !slices.Equal(got, want) {
			t.Errorf("link is up: %v: groups %v are pushed, want %v", up, got, want)
		}
	}
}

// A group has a leader while that is in reach, and has its quorum in reach.
func TestLed(t *testing.T) {
	lose := func(nodes ...id.NodeID) func(*core, time.Time) {
		return func(k *core, now time.Time) {
			for _, n := range nodes {
				k.judge(now, n, true)
			}
		}
	}
	nonvoter := follower("b", 5)
	nonvoter.voters, nonvoter.nonvoters = []id.NodeID{"b", "c"}, []id.NodeID{"a"}
	for _, c := range []struct {
		name  string
		state observed
		do    func(*core, time.Time)
		led   bool
	}{
		{"follower", follower("b", 5), lose(), true},
		{"follower of none", follower("", 5), lose(), false},
		{"follower of a lost node", follower("b", 5), lose("b"), false},
		{"follower, another one is lost", follower("b", 5), lose("c"), true},
		{"follower that was told otherwise", follower("b", 5), func(k *core, now time.Time) { k.deny(now, "b", belief{1, 5}) }, false},
		{"leader", leads("a", 5), lose(), true},
		{"leader of a majority", leads("a", 5), lose("c"), true},
		{"leader alone", leads("a", 5), lose("b", "c"), false},
		{"without a vote", nonvoter, lose(), true},
		{"without a vote, its leader is lost", nonvoter, lose("b"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newTestCore("a")
			now := start()
			k.judge(now, "b", false)
			k.judge(now, "c", false)
			k.observe(now, 1, c.state)
			c.do(k, now)
			if k.led(1) != c.led {
				t.Errorf("led is %v", !c.led)
			}
		})
	}
	if newTestCore("a").led(1) {
		t.Error("a group that is not here is led")
	}
}

func TestConfigFaults(t *testing.T) {
	_, err := New(Config{Tick: -1, MaxElections: -2})
	for _, want := range []string{"Node is empty", "Transport is nil", "Tick is -1ns", "MaxElections is -2"} {
		if err == nil || !strings.Contains(err.Error(), "liveness: "+want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

// A leader that denied it while its disk hung, and says that it leads when it is asked
// again, is believed: nothing else would notify its followers, as its term is the same.
func TestDenialIsTakenBack(t *testing.T) {
	k := newTestCore("a")
	now := start()
	k.judge(now, "b", false)
	k.judge(now, "c", false)
	k.observe(now, 1, follower("b", 5))
	k.deny(now, "b", belief{1, 5})
	mine := Surveyed{1, 5, 10}
	if k.needs[1] == nil || k.conclude(now, mine, map[id.NodeID]Answer{"c": {Votes: true, Campaigning: true}}) || k.needs[1] == nil {
		t.Fatal("not in need after the leader denied it")
	}
	if k.conclude(now, mine, map[id.NodeID]Answer{"b": {Leads: true}}) || k.needs[1] != nil {
		t.Error("in need although the leader leads")
	}
}

// A member that leaves stands as long as that is not known to be committed, and has no vote of its own; one that is behind
// does not stand.
func TestWhoStands(t *testing.T) {
	now := start()
	k := newTestCore("d")
	for _, n := range []id.NodeID{"a", "b", "c"} {
		k.judge(now, n, false)
	}
	for i, row := range []struct {
		name     string
		o        observed
		agree    []id.NodeID
		needs    bool
		campaign bool
	}{
		{"no voter", follower("", 2), nil, false, false},
		{"leaves, one agrees", observed{voters: []id.NodeID{"a", "b", "c"}, state: raft.Follower, term: 2, leaving: true}, []id.NodeID{"a"}, true, false},
		{"leaves, two agree", observed{voters: []id.NodeID{"a", "b", "c"}, state: raft.Follower, term: 2, leaving: true}, []id.NodeID{"a", "b"}, true, true},
		{"votes, one agrees", observed{voters: []id.NodeID{"a", "b", "d"}, state: raft.Follower, term: 2}, []id.NodeID{"a"}, true, true},
		{"is behind", observed{voters: []id.NodeID{"a", "b", "d"}, state: raft.Follower, term: 2, behind: true}, nil, false, false},
	} {
		g := id.GroupID(i + 1)
		k.observe(now, g, row.o)
		if needs := k.needs[g] != nil; needs != row.needs {
			t.Errorf("%s: in need %v", row.name, needs)
		}
		answers := map[id.NodeID]Answer{}
		for _, n := range row.agree {
			answers[n] = Answer{Votes: true}
		}
		if campaign := k.conclude(now, Surveyed{g, 2, 9}, answers); campaign != row.campaign {
			t.Errorf("%s: campaigns %v", row.name, campaign)
		}
	}
}
