package cluster

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// ExportQueue sends a peer what this node's member of a queue holds.
func (s calls) ExportQueue(r *nodev1.ExportQueueRequest, stream grpc.ServerStreamingServer[nodev1.ExportQueueResponse]) error {
	return s.Export(stream.Context(), r, func(block []byte) ([]byte, error) {
		return block, stream.Send(&nodev1.ExportQueueResponse{Block: block}) // which copies it
	})
}

// Export passes on what this node's member of a queue holds, block by block. emit may keep one, and returns memory
// for a later one, or nil.
func (s calls) Export(ctx context.Context, r *nodev1.ExportQueueRequest, emit func(block []byte) (spare []byte, err error)) error {
	uid := id.QueueUID(r.GetQueue())
	q := s.c.host.Member(uid)
	if q == nil {
		s.c.host.WakeInBackground(uid)
		return status.Error(codes.NotFound, s.c.host.NotHosted(uid).Error())
	}
	rec, ok := s.c.View().QueueByUID(uid)
	if !ok {
		return status.Errorf(codes.NotFound, "queue %s is not in this node's view of the catalog", uid)
	}
	return q.Export(ctx, r.GetIndex(), rec.VHost, rec.Name, r.GetHeadOnly(), emit)
}
