// Package pulse is the heartbeats between a node and its peers: they show that both live and in which directions packets pass
// (ADR 0004), carry the readings of clocks, and show connections that stand still. Each pair of nodes has a connection of
// its own for them, which package transport opens and admits; here are the bytes on it. A Set has a Pulse for each peer.
package pulse
