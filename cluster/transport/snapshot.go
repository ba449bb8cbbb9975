package transport

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/cluster/frame"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// chunkBytes is how much of a snapshot travels in one message.
const chunkBytes = 256 << 10

// InstallSnapshot implements raft.Transport: it streams the snapshot, as fast as the
// receiver takes it, on the connection of the streams.
func (g *group) InstallSnapshot(
	to raft.ServerID, _ raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader,
) error {
	pc, err := g.connection(to, true)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(pc.ctx)
	defer cancel()
	stop := context.AfterFunc(g.ctx, cancel)
	defer stop()
	stream, err := nodev1.NewNodeClient(pc.client).InstallSnapshot(ctx)
	if err != nil {
		return fmt.Errorf("transport: snapshot of group %s to node %q: %w", g.id, to, err)
	}
	err = sendSnapshot(stream, g.id, args, data)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("transport: snapshot of group %s to node %q: %w", g.id, to, err)
	}
	// After io.EOF the receiver has ended the stream; its answer has the reason.
	p, err := stream.CloseAndRecv()
	if err != nil {
		return fmt.Errorf("transport: snapshot of group %s to node %q: %w", g.id, to, err)
	}
	*resp = raft.InstallSnapshotResponse{RPCHeader: frame.HeaderOf(p.GetHeader()), Term: p.GetTerm(), Success: p.GetSuccess()}
	return nil
}

// sendSnapshot sends the header, then exactly args.Size bytes. io.EOF means that the receiver has ended the
// stream.
func sendSnapshot(
	stream grpc.ClientStreamingClient[nodev1.InstallSnapshotRequest, nodev1.InstallSnapshotResponse],
	g id.GroupID, args *raft.InstallSnapshotRequest, data io.Reader,
) error {
	err := stream.Send(&nodev1.InstallSnapshotRequest{Header: &nodev1.InstallSnapshotHeader{
		Group: uint64(g), Header: frame.HeaderTo(args.RPCHeader), SnapshotVersion: int32(args.SnapshotVersion),
		Term: args.Term, Leader: args.Leader, LastLogIndex: args.LastLogIndex, LastLogTerm: args.LastLogTerm, Peers: args.Peers,
		Configuration: args.Configuration, ConfigurationIndex: args.ConfigurationIndex, Size: args.Size,
	}})
	chunk := make([]byte, chunkBytes)
	for sent := int64(0); err == nil && sent < args.Size; {
		n, readErr := io.ReadFull(data, chunk[:min(int64(chunkBytes), args.Size-sent)])
		if readErr != nil {
			return fmt.Errorf("the snapshot has %d bytes, its size is said to be %d: %w", sent+int64(n), args.Size, readErr)
		}
		// Send has copied the chunk when it returns.
		err = stream.Send(&nodev1.InstallSnapshotRequest{Chunk: chunk[:n]})
		sent += int64(n)
	}
	return err
}

// snapshotReader is what raft reads a snapshot from. Only raft's goroutine uses it.
type snapshotReader struct {
	stream grpc.ClientStreamingServer[nodev1.InstallSnapshotRequest, nodev1.InstallSnapshotResponse]
	rest   []byte
}

// Read implements io.Reader.
func (r *snapshotReader) Read(b []byte) (int, error) {
	for len(r.rest) == 0 {
		m, err := r.stream.Recv()
		if err != nil {
			return 0, err
		}
		r.rest = m.GetChunk()
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// InstallSnapshot hands a snapshot that a peer sends to the group's member here.
func (s service) InstallSnapshot(
	stream grpc.ClientStreamingServer[nodev1.InstallSnapshotRequest, nodev1.InstallSnapshotResponse],
) error {
	from, _ := CallerOf(stream.Context())
	m, err := stream.Recv()
	if err != nil {
		return err
	}
	h := m.GetHeader()
	if h == nil {
		return status.Errorf(codes.InvalidArgument, "a snapshot of node %q does not begin with its header", from.Node)
	}
	if err := checkSender(h.GetHeader().GetId(), from); err != nil {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	if s.m.silent(id.GroupID(h.GetGroup())) {
		return status.Error(codes.NotFound, s.m.noPart(id.GroupID(h.GetGroup())).Error())
	}
	g := s.m.group(id.GroupID(h.GetGroup()))
	if g == nil {
		return status.Error(codes.NotFound, s.m.noGroup(id.GroupID(h.GetGroup())).Error())
	}
	done := make(chan raft.RPCResponse, 1)
	rpc := raft.RPC{Command: snapshotRequestOf(h), Reader: &snapshotReader{stream: stream, rest: m.GetChunk()}, RespChan: done}
	if !g.deliver(rpc, stream.Context().Done()) {
		if err := stream.Context().Err(); err != nil {
			return status.FromContextError(err).Err()
		}
		return status.Error(codes.NotFound, s.m.noGroup(g.id).Error())
	}
	// The reader fails when the stream does, so raft always comes to an end.
	select {
	case r := <-done:
		return sendSnapshotAnswer(stream, r)
	case <-g.done:
		return status.Error(codes.NotFound, s.m.noGroup(g.id).Error())
	}
}

// sendSnapshotAnswer gives raft's refusal as Aborted: the way to the member is good.
func sendSnapshotAnswer(
	stream grpc.ClientStreamingServer[nodev1.InstallSnapshotRequest, nodev1.InstallSnapshotResponse], r raft.RPCResponse,
) error {
	if r.Error != nil {
		return status.Error(codes.Aborted, r.Error.Error())
	}
	resp, ok := r.Response.(*raft.InstallSnapshotResponse)
	if !ok {
		return status.Errorf(codes.Internal, "raft answered a snapshot with %T", r.Response)
	}
	return stream.SendAndClose(&nodev1.InstallSnapshotResponse{Header: frame.HeaderTo(resp.RPCHeader), Term: resp.Term, Success: resp.Success})
}

// snapshotRequestOf is the request as raft takes it, without the data.
func snapshotRequestOf(h *nodev1.InstallSnapshotHeader) *raft.InstallSnapshotRequest {
	return &raft.InstallSnapshotRequest{
		RPCHeader: frame.HeaderOf(h.GetHeader()), SnapshotVersion: raft.SnapshotVersion(h.GetSnapshotVersion()),
		Term: h.GetTerm(), Leader: h.GetLeader(), LastLogIndex: h.GetLastLogIndex(), LastLogTerm: h.GetLastLogTerm(),
		Peers: h.GetPeers(), Configuration: h.GetConfiguration(), ConfigurationIndex: h.GetConfigurationIndex(), Size: h.GetSize(),
	}
}
