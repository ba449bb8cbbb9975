package cluster

import (
	"errors"

	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/raftfsm"
)

// openCatalog opens this node's member of the catalog group.
func (c *Cluster) openCatalog() (*metadata.Group, error) {
	return metadata.Open(metadata.Config{
		Cluster: c.cfg.Name, Node: c.cfg.Node, Epoch: c.epoch, PeerAddr: c.cfg.PeerAddr, ClientAddr: c.cfg.ClientAddr,
		Join: c.cfg.Join, Expect: c.cfg.Expect, ManualFinalise: c.cfg.ManualFinalise,
		CommandTimeout: c.cfg.CommandTimeout, PropagationTimeout: c.cfg.PropagationTimeout, Staleness: c.cfg.CatalogStaleness, AwayAfter: c.cfg.Reconcile.Delay,
		Logger: c.log, Source: c.cfg.Clock, Clock: c.clock, Dir: c.dir, Admission: c.admission, Views: c.views,
		Journal: c.events, Mux: c.mux, Liveness: c.liveness, Disk: c.disks, Peers: c.peers, Gossip: c.gossip,
		Registered: func() { c.host.WakeReconcile(); c.givenUp.Wake() }, Failed: c.catalogFailed, Life: c.ctx,
	})
}

// catalogFailed ends the node as when its log for queues fails if the catalog's log cannot be written:
// one that stays would serve nobody until somebody starts it again. Else the node starts over.
func (c *Cluster) catalogFailed(err error) {
	switch {
	case errors.Is(err, raftfsm.ErrWriteFailed):
		c.logFailed(err)
	case c.cfg.Failed != nil:
		c.cfg.Failed(err)
	}
}
