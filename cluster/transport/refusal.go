package transport

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/id"
)

// refusal is the answer to a peer with which communication is impossible until somebody changes something, which its
// text names.
type refusal struct {
	code codes.Code
	text string
}

// Error implements error.
func (r refusal) Error() string { return r.text }

// GRPCStatus gives the refusal to the peer as it is.
func (r refusal) GRPCStatus() *status.Status { return status.New(r.code, r.text) }

// twiceErr refuses a second process of a node's id.
func twiceErr(n id.NodeID) error {
	return refusal{codes.FailedPrecondition, fmt.Sprintf(
		"node id %q is used by two processes: give every node its own id and its own data directory", n)}
}

// overErr refuses an incarnation that a newer one has taken the place of.
func overErr(p Peer, seen id.Epoch) error {
	return refusal{codes.FailedPrecondition, fmt.Sprintf(
		"epoch %d of node %q is over, epoch %d was seen already: stop the older process, or, if its data directory is an "+
			"older copy, start it with an empty one", p.Epoch, p.Node, seen)}
}

// stuckErr is why a connection that stands still is given up.
func stuckErr(why error) error { return fmt.Errorf("%w: %w", ErrNotConnected, why) }

// failedAll is why none of several addresses led to a peer.
type failedAll []error

// Error implements error.
func (f failedAll) Error() string {
	texts := make([]string, len(f))
	for i, err := range f {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// ended reports that nothing listens at any of the addresses.
func (f failedAll) ended() bool {
	for _, err := range f {
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return false
		}
	}
	return true
}

// refused reports whether the error will come again until somebody changes something.
func refused(err error) bool {
	var all failedAll
	if errors.As(err, &all) {
		// One address may lead to an unauthenticated client while the peer is not at the other one yet.
		return !slices.ContainsFunc(all, func(err error) bool { return !refused(err) })
	}
	var r refusal
	if errors.As(err, &r) {
		return true
	}
	switch status.Code(err) {
	case codes.FailedPrecondition, codes.Unauthenticated, refusedStore, codes.InvalidArgument, codes.Unimplemented:
		return true
	default:
		return false
	}
}

// refusedStore is the code of refusals by Config.Refuse, and of no others.
const refusedStore = codes.PermissionDenied

// maxLoggedRefusals bounds the different reasons that are logged.
const maxLoggedRefusals = 100

// refusals counts refused callers and logs each reason once. mu guards what is below it.
type refusals struct {
	node id.NodeID
	log  *slog.Logger

	mu     sync.Mutex
	count  uint64
	logged map[string]bool
}

// refused records a caller that was turned away. Connections that merely end do not count: so do probes.
func (s *refusals) refused(err error) {
	var known refusal
	var network net.Error
	var reason string
	alert, alerted := alertOf(err)
	switch {
	case errors.As(err, &known):
		reason = known.text
	case alerted:
		reason = fmt.Sprintf("a caller does not take the certificate of node %q (%s): its log says why", s.node, alert)
	case errors.Is(err, io.EOF) || errors.As(err, &network):
		return
	default:
		reason = fmt.Sprintf("the TLS handshake of a caller failed (%v): nodes need TLS 1.3 and a certificate of the cluster's authority", err)
	}
	s.mu.Lock()
	s.count++
	first := !s.logged[reason]
	last := first && len(s.logged) == maxLoggedRefusals
	if first && len(s.logged) <= maxLoggedRefusals {
		s.logged[reason] = true
	} else {
		first = false
	}
	s.mu.Unlock()
	switch {
	case last:
		s.log.Warn("callers are refused for ever new reasons, which are counted from now on and not logged", "reasons", maxLoggedRefusals)
	case first:
		s.log.Error("refused a caller at the nodes' port", "error", reason)
	}
}

// total counts those too whose reason was not logged.
func (s *refusals) total() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// alertOf returns the text of the alert by which the other end refused the handshake.
// crypto/tls has no exported type for it.
func alertOf(err error) (alert string, is bool) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return "", false
	}
	return op.Err.Error(), true
}
