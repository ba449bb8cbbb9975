package transport

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/id"
)

// Metadata by which both ends of a connection name themselves: the opener on every
// call, the receiver in the header of every Link.
const (
	mdCluster = "quorate-cluster"
	mdNode    = "quorate-node"
	mdEpoch   = "quorate-epoch"
	mdToken   = "quorate-peer-token" //nolint:gosec // the name of a header
	mdStream  = "quorate-link"
	mdProcess = "quorate-process" // optional
	mdWanted  = "quorate-wanted"  // of a Link: the node that the opener means
	mdReads   = "quorate-reads"   // newest version of machines that the node reads; without it 1
	mdStore   = "quorate-store"   // builds that know no stores send none
	mdFresh   = "quorate-fresh"   // there while no catalog has taken the store
	mdBegan   = "quorate-began"   // optional: Peer.Began
)

// identity is what this node announces about itself. It does not change, except that its store ceases to be fresh.
type identity struct {
	cluster, token string
	reads          uint8
	finalised      func() uint8
	self           Peer
	secure         bool // the token never travels in plain text
	refuse         func(Peer) error
	fresh          func() bool
	began          func() uint64
	process        string // by chance: distinguishes a call to oneself from a second process of the same id
}

// newIdentity makes the token once: it does not change while the node runs.
func newIdentity(c *Config) identity {
	i := identity{
		cluster: c.Cluster, self: Peer{Node: c.Node, Epoch: c.Epoch, Store: c.Store},
		secure: c.TLS != nil,
		refuse: c.Refuse, fresh: c.Fresh, began: c.Began, reads: c.Reads, finalised: c.Finalised,
		process: strconv.FormatUint(rand.Uint64(), 16), //nolint:gosec // no secret
	}
	if len(c.Key) > 0 {
		mac := hmac.New(sha256.New, c.Key)
		mac.Write([]byte("quorate peer " + c.Cluster))
		i.token = hex.EncodeToString(mac.Sum(nil))
	}
	return i
}

// values are computed for each call, because a store ceases to be fresh while the node runs.
func (i identity) values() map[string]string {
	v := map[string]string{
		mdCluster: i.cluster,
		mdNode:    string(i.self.Node),
		mdEpoch:   strconv.FormatUint(uint64(i.self.Epoch), 10),
		mdToken:   i.token,
		mdProcess: i.process,
		mdReads:   strconv.Itoa(int(i.reads)),
	}
	if i.self.Store != "" {
		v[mdStore] = string(i.self.Store)
	}
	if i.fresh != nil && i.fresh() {
		v[mdFresh] = "yes"
	}
	if i.began != nil {
		if at := i.began(); at > 0 {
			v[mdBegan] = strconv.FormatUint(at, 10)
		}
	}
	return v
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (i identity) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return i.values(), nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (i identity) RequireTransportSecurity() bool { return i.secure }

// misled is the answer to a connection that is meant for another node. It is no refusal,
// because it may pass: names, and IP addresses that are reused, move with the processes.
func (i identity) misled(from id.NodeID, wanted string) error {
	return status.Errorf(codes.Unavailable, "node %q answers where node %q looks for node %q: if that lasts, correct the address of %q",
		i.self.Node, from, wanted, wanted)
}

// check reads who the other end is and whether this node may talk to it.
func (i identity) check(md metadata.MD) (Peer, error) {
	cluster, node := first(md, mdCluster), first(md, mdNode)
	if node == "" {
		return Peer{}, refusal{codes.InvalidArgument, fmt.Sprintf(
			"the call to node %q has no metadata %q: this port is for nodes of the cluster; clients use the clients' port",
			i.self.Node, mdNode)}
	}
	if cluster != i.cluster {
		return Peer{}, refusal{codes.FailedPrecondition, fmt.Sprintf(
			"node %q belongs to cluster %q, node %q to cluster %q: set the same cluster name on both, or correct the list of nodes to join",
			node, cluster, i.self.Node, i.cluster)}
	}
	if token := first(md, mdToken); !hmac.Equal([]byte(token), []byte(i.token)) {
		return Peer{}, refusal{codes.Unauthenticated, fmt.Sprintf(
			"the cluster key of node %q (%s) is not that of node %q (%s): set the same key on all nodes of cluster %q",
			node, keyed(token), i.self.Node, keyed(i.token), i.cluster)}
	}
	if node == string(i.self.Node) && first(md, mdProcess) == i.process {
		return Peer{}, refusal{codes.Unavailable, fmt.Sprintf(
			"node %q called itself: the address that it knows of another node leads here", node)}
	}
	if node == string(i.self.Node) {
		return Peer{}, twiceErr(i.self.Node)
	}
	if err := i.checkVersion(node, readsOf(md)); err != nil {
		return Peer{}, err
	}
	epoch, err := strconv.ParseUint(first(md, mdEpoch), 10, 64)
	if err != nil {
		return Peer{}, refusal{codes.InvalidArgument, fmt.Sprintf(
			"metadata %q of node %q is %q: send the node's epoch as a decimal number", mdEpoch, node, first(md, mdEpoch))}
	}
	began, err := strconv.ParseUint(cmp.Or(first(md, mdBegan), "0"), 10, 64)
	if err != nil {
		return Peer{}, refusal{codes.InvalidArgument, fmt.Sprintf(
			"metadata %q of node %q is %q: send an index of the catalog as a decimal number", mdBegan, node, first(md, mdBegan))}
	}
	p := Peer{
		Node: id.NodeID(node), Epoch: id.Epoch(epoch), Store: id.StoreID(first(md, mdStore)), Fresh: first(md, mdFresh) != "", Began: began,
	}
	return p, i.judge(p)
}

// judge refuses a peer that Config.Refuse refuses.
func (i identity) judge(p Peer) error {
	if i.refuse == nil {
		return nil
	}
	if why := i.refuse(p); why != nil {
		return refusal{refusedStore, why.Error()}
	}
	return nil
}

// checkVersion refuses a node whose build cannot read what may be written already.
func (i identity) checkVersion(node string, reads uint8) error {
	if finalised := i.finalised(); reads < finalised {
		return refusal{codes.FailedPrecondition, fmt.Sprintf(
			"node %q runs a build that reads version %d of stored state, and version %d is finalised in cluster %q: "+
				"start it with a newer build, that of node %q for example", node, reads, finalised, i.cluster, i.self.Node)}
	}
	return nil
}

// readsOf returns the version that a node says to read. Builds that do not say it read 1,
// and what cannot be read as a number counts as that.
func readsOf(md metadata.MD) uint8 {
	n, err := strconv.ParseUint(first(md, mdReads), 10, 8)
	if err != nil {
		return 1
	}
	return uint8(n)
}

// recheck is check of a peer that was let in before.
func (i identity) recheck(p Peer, reads uint8) error {
	if err := i.checkVersion(string(p.Node), reads); err != nil {
		return err
	}
	return i.judge(p)
}

// keyed shows whether there is a token, and never the token.
func keyed(token string) string {
	if token == "" {
		return "no key"
	}
	return "with a key"
}

// first returns "" where there is no such metadata; each of them is sent once.
func first(md metadata.MD, key string) string {
	if v := md.Get(key); len(v) > 0 {
		return v[0]
	}
	return ""
}
