package leader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Export passes on a copy of a queue as it is at one moment of the call, in blocks of package backup: whatever was
// confirmed before the call is in it. A follower writes it if one can, so that the leader has no work. emit may keep a
// block, and returns memory for a later one, or nil. A member that fails before its first block is replaced by another
// one. If all fail, the error is traffic.ErrNotExported with the reason of each.
func (l *Leaders) Export(ctx context.Context, q id.QueueUID, headOnly bool, emit func(block []byte) (spare []byte, err error)) error {
	s, err := l.Status(ctx, q) // its barrier is the point in time
	if err != nil {
		return err
	}
	r, ok := l.cfg.View().QueueByUID(q)
	if !ok {
		return fmt.Errorf("%w: queue %s is not in this node's view of the catalog", traffic.ErrNoSuchQueue, q)
	}
	request := &nodev1.ExportQueueRequest{Queue: uint64(q), Index: s.Group.GetAppliedIndex(), HeadOnly: headOnly}
	var errs []error
	for _, n := range l.exporters(r, &s) {
		began := false
		err := l.exportAt(ctx, n, request, func(block []byte) ([]byte, error) {
			began = true
			return emit(block)
		})
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("node %q: %w", n, err))
		if began || ctx.Err() != nil {
			break
		}
	}
	return fmt.Errorf("%w: queue %q in vhost %q: %w", traffic.ErrNotExported, r.Name, r.VHost, errors.Join(errs...))
}

// exporters returns the members that may export a queue: this node first, then other followers, and the leader last.
func (l *Leaders) exporters(r *catalog.QueueRecord, s *Status) []id.NodeID {
	rank := func(n id.NodeID) int {
		switch n {
		case s.Leader:
			return 2
		case l.cfg.Node:
			return 0
		}
		return 1
	}
	out := slices.DeleteFunc(slices.Clone(r.Members), func(n id.NodeID) bool { return !slices.Contains(s.Online, n) && n != s.Leader })
	slices.SortStableFunc(out, func(a, b id.NodeID) int { return rank(a) - rank(b) })
	return out
}

// exportAt asks one node, which may be this one. A member that is behind gets the time of a command to catch up.
func (l *Leaders) exportAt(ctx context.Context, n id.NodeID, request *nodev1.ExportQueueRequest, emit func([]byte) ([]byte, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first, late := wait.Within(ctx, l.cfg.Life, l.cfg.CommandTimeout)
	defer late()
	began := context.AfterFunc(first, cancel)
	passing := func(block []byte) ([]byte, error) {
		began()
		return emit(block)
	}
	if n == l.cfg.Node {
		return l.cfg.Own.Export(ctx, request, passing)
	}
	peer, err := l.cfg.Transport.Client(n)
	if err != nil {
		return err
	}
	stream, err := peer.ExportQueue(ctx, request)
	if err != nil {
		return err
	}
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := passing(r.GetBlock()); err != nil {
			return err
		}
	}
}
