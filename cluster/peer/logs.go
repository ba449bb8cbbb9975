package peer

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/logtail"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// logBytes is about how many bytes of lines one answer has at most.
const logBytes = 1 << 20

// Logs are the newest lines of the logs of all nodes. Its methods may be called concurrently.
type Logs struct {
	peers *Peers
	own   *logtail.Tail
	epoch id.Epoch
}

// NewLogs returns those of all nodes; own has this node's in this life.
func NewLogs(peers *Peers, own *logtail.Tail, epoch id.Epoch) *Logs {
	return &Logs{peers: peers, own: own, epoch: epoch}
}

// LogPage are lines of a node's log, oldest first.
type LogPage struct {
	Lines []logtail.Line
	At    Position // where to go on
	More  bool     // there are further lines already
}

// Read returns lines of a node's log that have a level at least, behind a position; one of another life of the node
// stands before all lines. With wait it waits a while for a newer line. Errors: ErrUnreachable, or that of ctx.
func (l *Logs) Read(ctx context.Context, n id.NodeID, at Position, level slog.Level, wait bool) (LogPage, error) {
	if n == l.peers.Node {
		p := l.read(ctx, at, level, wait)
		if l.peers.Life.Err() != nil { // it would no longer wait
			return LogPage{}, fmt.Errorf("%w: node %q stops", ErrUnreachable, n)
		}
		return p, ctx.Err()
	}
	node, err := l.peers.Client(n)
	var r *nodev1.AwaitLogResponse
	if err == nil {
		r, err = node.AwaitLog(ctx, &nodev1.AwaitLogRequest{Epoch: uint64(at.Epoch), After: at.Seq, Level: int32(level), Wait: wait}) // levels are small
	}
	if err := unreachable(ctx, n, err); err != nil {
		return LogPage{}, err
	}
	p := LogPage{At: Position{id.Epoch(r.GetEpoch()), r.GetLast()}, More: r.GetMore()}
	for _, x := range r.GetLines() {
		p.Lines = append(p.Lines, logtail.Line{
			Number: x.GetNumber(), At: time.UnixMilli(x.GetAtMs()), Level: slog.Level(x.GetLevel()), Message: x.GetMessage(), Attributes: x.GetAttributes(),
		})
	}
	return p, nil
}

// AwaitLog returns lines of this node's log, for another one.
func (l *Logs) AwaitLog(ctx context.Context, r *nodev1.AwaitLogRequest) (*nodev1.AwaitLogResponse, error) {
	if err := l.peers.Life.Err(); err != nil { // else the caller would ask again at once
		return nil, status.Error(codes.Unavailable, "the node is stopping")
	}
	p := l.read(ctx, Position{id.Epoch(r.GetEpoch()), r.GetAfter()}, slog.Level(r.GetLevel()), r.GetWait())
	out := &nodev1.AwaitLogResponse{Epoch: uint64(p.At.Epoch), Last: p.At.Seq, More: p.More}
	for i := range p.Lines {
		x := &p.Lines[i]
		out.Lines = append(out.Lines, &nodev1.NodeLogLine{
			Number: x.Number, AtMs: x.At.UnixMilli(), Level: int32(x.Level), Message: clients.AsText(x.Message), Attributes: clients.AsText(x.Attributes),
		})
	}
	return out, nil
}

// read is Read for this node.
func (l *Logs) read(ctx context.Context, at Position, level slog.Level, wait bool) LogPage {
	ctx, cancel := context.WithTimeout(ctx, awaitAtMost)
	defer cancel()
	defer context.AfterFunc(l.peers.Life, cancel)() // it must not hold up the node's end
	if !wait {
		cancel()
	}
	if at.Epoch != l.epoch {
		at = Position{Epoch: l.epoch}
	}
	lines, last, err := l.own.After(ctx, at.Seq, level)
	if err != nil { // there is none
		return LogPage{At: at}
	}
	p := LogPage{Lines: lines, At: Position{l.epoch, last}}
	size := 0
	for i := range lines {
		if size += len(lines[i].Message) + len(lines[i].Attributes); size > logBytes && i > 0 {
			p.Lines, p.At.Seq, p.More = lines[:i], lines[i-1].Number, true
			break
		}
	}
	return p
}
