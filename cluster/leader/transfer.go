package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Transfer moves a queue's leadership to one of its members.
func (l *Leaders) Transfer(ctx context.Context, q id.QueueUID, to id.NodeID) error {
	if r, ok := l.cfg.View().QueueByUID(q); ok && to != "" && !slices.Contains(r.Members, to) {
		return fmt.Errorf("cluster: queue %q cannot be led by node %q: its members are %q", r.Name, to, r.Members)
	}
	ctx, cancel := wait.Within(ctx, l.cfg.Life, l.cfg.CommandTimeout)
	defer cancel()
	return l.at(ctx, q, func(at id.NodeID) (id.NodeID, error) {
		if at == to {
			return "", l.confirm(ctx, to, q)
		}
		err := l.transferAt(ctx, q, at, to)
		switch status.Code(err) {
		case codes.FailedPrecondition:
			return "", fmt.Errorf("node %q does not lead it", at)
		case codes.NotFound: // it may hibernate, and the question wakes it
			_, err = l.StatusAt(ctx, at, q)
			return "", errors.Join(err, fmt.Errorf("node %q does not lead it yet", at))
		default:
			return "", err
		}
	})
}

// TransferFrom moves a queue's leadership from a node, if that leads it. false: the node no longer leads the queue,
// or the queue hibernates or is gone.
func (l *Leaders) TransferFrom(ctx context.Context, q id.QueueUID, from, to id.NodeID) (moved bool, err error) {
	ctx, cancel := wait.Within(ctx, l.cfg.Life, l.cfg.CommandTimeout)
	defer cancel()
	err = l.transferAt(ctx, q, from, to)
	switch status.Code(err) {
	case codes.NotFound, codes.FailedPrecondition:
		return false, nil
	default:
		return err == nil, err
	}
}

// transferAt asks the node at for it, which may be this one.
func (l *Leaders) transferAt(ctx context.Context, q id.QueueUID, at, to id.NodeID) error {
	request := &nodev1.TransferLeadershipRequest{Group: uint64(q.Group()), To: string(to)}
	if at == l.cfg.Node {
		_, err := l.cfg.Own.TransferLeadership(ctx, request)
		return err
	}
	peer, err := l.cfg.Transport.Client(at)
	if err == nil {
		_, err = peer.TransferLeadership(ctx, request)
	}
	return err
}

// confirm fails unless the node leads the queue.
func (l *Leaders) confirm(ctx context.Context, n id.NodeID, q id.QueueUID) error {
	r, err := l.StatusAt(ctx, n, q)
	if err != nil {
		return err
	}
	if !r.GetHasOverview() {
		return fmt.Errorf("node %q does not lead it yet", n)
	}
	return nil
}
