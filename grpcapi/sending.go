package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/internal/grpcmem"
	"github.com/quorate/quorate/internal/incoming"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// sendPatience is how long a call waits for the room of its answer.
const sendPatience = 5 * time.Second

// newAnswers returns the budget of large answers.
func newAnswers(node *incoming.Budget) *budget {
	b := newBudget(node, windowBytes)
	b.what, b.advice = "answers", "read those that have come, and ask for fewer at a time"
	return b
}

// room is what a large answer takes of the budget, from before it is made until gRPC no longer needs its bytes. HTTP/2
// has a client decide when it reads, so gRPC may keep the answers of all streams of a connection. All methods may be
// called concurrently.
type room struct {
	b    *budget
	a    *asked
	once sync.Once
}

// free gives the room back, once. A nil room has nothing to give.
func (r *room) free() {
	if r == nil {
		return
	}
	r.once.Do(func() {
		r.a.conn.forget(r)
		r.b.release(r.a)
	})
}

// Get implements mem.BufferPool. gRPC takes no memory from a room.
func (r *room) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

// Put implements mem.BufferPool: gRPC calls it when the answer is written, or its stream is gone.
func (r *room) Put(*[]byte) { r.free() }

// reserve waits for the room of an answer. If none becomes free within sendPatience, or too many wait already, the
// call is refused.
func (s *Server) reserve(ctx context.Context, bytes int64) (*room, error) {
	a := &asked{conn: connectionOf(ctx), bytes: bytes}
	if who, err := s.b.Logins.Who(ctx); err == nil && who != nil {
		a.user = who.User()
	}
	within, stop := context.WithTimeout(ctx, sendPatience)
	defer stop()
	if _, err := s.sending.acquire(within, a); err != nil {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			s.sending.refused.Add(1)
			return nil, s.noRoom(bytes)
		}
		return nil, err
	}
	r := &room{b: s.sending, a: a}
	if !a.conn.keep(r) {
		r.free()
		return nil, context.Canceled // nobody gets the answer
	}
	return r, nil
}

// noRoom refuses a call whose answer has no room.
func (s *Server) noRoom(bytes int64) error {
	return &failure.Error{
		Class: failure.ResourceExhausted, Kind: "message", RetryAfter: receiveRetry,
		Reason: fmt.Sprintf("there was no room for an answer of up to %d bytes within %v, because other calls still wait for their queues, or clients have not "+
			"read their answers: limits.outgoing_bytes is %d, of which a user has half and a connection a quarter; %s, or without bodies",
			bytes, sendPatience, s.sending.node.Bytes(), s.sending.advice),
	}
}

// largest returns how large the answer may be to a request that reads messages; 0: it reads none.
func (s *Server) largest(req any) int64 {
	switch r := req.(type) {
	case *brokerv1.GetRequest:
		return int64(s.b.MaxBodyBytes() + headRoomBytes)
	case *brokerv1.PeekRequest:
		if r.GetWithBodies() {
			return int64(s.b.MaxBodyBytes() + headRoomBytes + s.cfg.DeliveryBytes) // gRPC sends no more
		}
		return broker.MaxPeekBytes
	}
	return 0
}

// metered carries out a call. A call that reads messages gets the room of its answer before it reads them: what Get
// has taken from its queue can no longer be refused. Other large answers get their room when they are known, except
// answers to changes, which have been made by then.
func (s *Server) metered(ctx context.Context, req any, method string, next grpc.UnaryHandler) (res any, err error) {
	var r *room
	if most := s.largest(req); most > 0 {
		if r, err = s.reserve(ctx, most); err != nil {
			return nil, err
		}
	}
	sent := false
	defer func() {
		if !sent {
			r.free()
		}
	}()
	res, err = next(ctx, req)
	m, is := res.(proto.Message)
	if err != nil || !is {
		return res, err
	}
	switch size := int64(proto.Size(m)); {
	case size <= windowBytes, r == nil && s.acts[method] != nil:
		return res, nil
	case r != nil:
		r.b.resize(r.a, size)
	default:
		if r, err = s.reserve(ctx, size); err != nil {
			return nil, err
		}
	}
	if err = uncompressed(ctx); err != nil {
		return nil, err
	}
	sent = true
	return &largeAnswer{message: m, room: r}, nil
}

// uncompressed has gRPC send the answer as it is: it would give the room back when it has compressed it.
func uncompressed(ctx context.Context) error {
	if raw, is := grpc.ServerTransportStreamFromContext(ctx).(rawStream); !is || raw.RecvCompress() == "" {
		return nil
	}
	return grpc.SetSendCompressor(ctx, encoding.Identity)
}

// largeAnswer is an answer with its room, for answerCodec.
type largeAnswer struct {
	message proto.Message
	room    *room
}

// encode encodes the answer into memory that gRPC gives back to the room. Where gRPC forgets to, as for a stream that was
// reset just before, the collector does when it frees the memory.
func (a *largeAnswer) encode() (mem.BufferSlice, error) {
	b, err := proto.Marshal(a.message)
	if err != nil {
		a.room.free()
		return nil, err
	}
	data := &b
	runtime.AddCleanup(data, (*room).free, a.room)
	return mem.BufferSlice{mem.NewBuffer(data, a.room)}, nil
}

// answerCodec encodes what the server sends.
type answerCodec struct {
	encoding.CodecV2
	memory *grpcmem.Pool
}

// Marshal implements encoding.CodecV2.
func (c answerCodec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case *largeAnswer:
		return v.encode()
	case *outgoing:
		return v.encode(c.memory)
	case *exportedBlock:
		return v.encode(), nil
	default:
		return c.CodecV2.Marshal(v)
	}
}
