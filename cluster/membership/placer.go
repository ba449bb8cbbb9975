package membership

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/placement"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// PlacerConfig are the parts that a Placer is made of. All are needed.
type PlacerConfig struct {
	Node      id.NodeID
	Epoch     id.Epoch
	View      func() *catalog.View
	Transport Transport
	Catalog   *metadata.Group
	Members   *replica.Host
	Nodes     Nodes
	Disks     *disk.Board
	Rooms     *disk.Rooms
	Life      context.Context // ends when this node stops
}

// Placer knows which nodes there are for members of queues, and what they carry. All methods may be called
// concurrently.
type Placer struct{ cfg PlacerConfig }

// NewPlacer returns one.
func NewPlacer(cfg PlacerConfig) *Placer { return &Placer{cfg: cfg} }

// state returns what plans are made from: all durable queues, those movable that the
// filter chooses and that do not change just now. Nodes that drain, or do not answer, get
// nothing. Of queues that hibernate it knows the leaders if this node has a member.
func (p *Placer) state(movable func(*catalog.QueueRecord) bool, lost map[id.NodeID]bool) placement.State {
	s := p.from(p.ask(), movable, lost)
	for i := range s.Groups {
		if g := &s.Groups[i]; g.Leader == "" {
			g.Leader = p.cfg.Members.SleepingLeader(g.UID)
		}
	}
	return s
}

// from is state of what nodes have answered.
func (p *Placer) from(
	answers map[id.NodeID]*nodev1.NodeStatusResponse, movable func(*catalog.QueueRecord) bool, lost map[id.NodeID]bool,
) placement.State {
	s := placement.State{Nodes: p.candidates()}
	leaders := map[id.QueueUID]id.NodeID{}
	for n, a := range answers {
		for _, g := range a.GetGroups() {
			if g.GetLeader() == string(n) && g.GetFailed() == "" {
				leaders[id.QueueUID(g.GetGroup())] = n
			}
		}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		a, answered := answers[n.Node]
		n.Lost = lost[n.Node]
		n.Alive = answered && !a.GetDraining()
	}
	for r := range p.cfg.View().Queues() {
		if !r.Durable {
			continue // it stays on its node
		}
		s.Groups = append(s.Groups, placement.Group{
			UID: r.UID, Members: r.Members, Leader: leaders[r.UID], Preferred: r.Leader,
			Fixed: r.Change != nil || !movable(r),
		})
	}
	return s
}

// ask asks the registered nodes, this one included, what they host; those that answer.
func (p *Placer) ask() map[id.NodeID]*nodev1.NodeStatusResponse {
	var mu sync.Mutex
	answers := map[id.NodeID]*nodev1.NodeStatusResponse{}
	var asked sync.WaitGroup
	for n := range p.cfg.View().Nodes() {
		_, up := p.cfg.Transport.Connected(n.ID)
		if !up && n.ID != p.cfg.Node {
			continue
		}
		asked.Go(func() {
			var a *nodev1.NodeStatusResponse
			var err error
			if n.ID == p.cfg.Node {
				a, err = p.cfg.Nodes.Own(p.cfg.Life)
			} else {
				a, err = p.cfg.Catalog.Ask(n.ID)
			}
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				answers[n.ID] = a
			}
		})
	}
	asked.Wait()
	return answers
}

// place chooses the members of a queue; one that exists keeps its own.
func (p *Placer) place(d *catalog.DeclareQueue, size int, balanced bool) error {
	if old, ok := p.cfg.View().Queue(d.VHost, d.Name); ok {
		d.Members, d.Leader = old.Members, old.Leader
		return nil
	}
	if !d.Durable {
		return p.placeHere(d)
	}
	nodes := p.candidates()
	if len(nodes) == 0 {
		return fmt.Errorf("%w: queue %q cannot be placed: no node is registered in the catalog yet", traffic.ErrUnavailable, d.Name)
	}
	locator := placement.ClientLocal
	if balanced {
		locator = placement.Balanced
	}
	var err error
	d.Members, d.Leader, err = placement.Place(nodes, size, p.local(), locator)
	if short := p.cfg.Rooms.Shortage(); errors.Is(err, placement.ErrNoQuorum) && short != "" {
		return fmt.Errorf("%w: queue %q in vhost %q cannot be placed: %s", disk.ErrNoSpace, d.Name, d.VHost, short)
	}
	if errors.Is(err, placement.ErrNoQuorum) {
		err = fmt.Errorf("%w: %w", traffic.ErrUnavailable, err)
	}
	if err != nil {
		return fmt.Errorf("placing queue %q: %w", d.Name, err)
	}
	return nil
}

// placeHere places a queue that lives as long as this process.
func (p *Placer) placeHere(d *catalog.DeclareQueue) error {
	if n, registered := p.cfg.View().Node(p.cfg.Node); !registered || n.Epoch != p.cfg.Epoch {
		return fmt.Errorf("%w: queue %q cannot be placed: this node is not registered in the catalog yet", traffic.ErrUnavailable, d.Name)
	}
	if !p.cfg.Disks.Fine(p.cfg.Node) {
		return fmt.Errorf("%w: queue %q in vhost %q cannot be placed: %s", disk.ErrNoSpace, d.Name, d.VHost, p.cfg.Rooms.Shortage())
	}
	d.Members, d.Leader, d.Home = []id.NodeID{p.cfg.Node}, p.cfg.Node, p.cfg.Epoch
	return nil
}

// local returns this node if the catalog knows it.
func (p *Placer) local() id.NodeID {
	if _, registered := p.cfg.View().Node(p.cfg.Node); registered {
		return p.cfg.Node
	}
	return ""
}

// candidates returns the registered nodes with what each carries.
func (p *Placer) candidates() []placement.Candidate {
	v := p.cfg.View()
	loads := p.cfg.Members.Loads(v)
	var nodes []placement.Candidate
	for n := range v.Nodes() {
		_, up := p.cfg.Transport.Connected(n.ID)
		l := loads[n.ID]
		nodes = append(nodes, placement.Candidate{
			// A node whose disk is nearly full comes last, as one that is down.
			Node: n.ID, Alive: (up || n.ID == p.cfg.Node) && p.cfg.Disks.Fine(n.ID), Replicas: l.Replicas, Leaders: l.Leaders,
			Drains: p.cfg.Transport.Drains(n.ID),
		})
	}
	return nodes
}
