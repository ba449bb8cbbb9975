package grpcapi

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/broker/failure"
)

// How long a message with room in the budget may take to arrive before its call ends: receiveTime,
// plus a second for each receiveBytesPerSec. While others wait for room it is scarceTime, plus a
// second for each scarceBytesPerSec.
const (
	receiveTime        = 30 * time.Second
	receiveBytesPerSec = 64 << 10
	scarceTime         = 5 * time.Second
	scarceBytesPerSec  = 1 << 20
	// scarceLook is the time between two checks whether others are waiting.
	scarceLook = time.Second
)

// portionBytes is how much of a large message is requested at a time: its client may send this much before it
// receives the next request. Smaller portions would slow down clients that are far away.
const portionBytes = 1 << 20

// headBytes is the size of the prefix of each message: a compression flag and the length.
const headBytes = 5

// rawStream is gRPC's end of a call below the level of messages. Unread data holds the client up by
// HTTP/2 flow control, so a message whose length is known can wait for room.
type rawStream interface {
	ReadMessageHeader(head []byte) error
	Read(n int) (mem.BufferSlice, error)
	RecvCompress() string
}

// receiver reads the messages of one call.
type receiver struct {
	s    *Server
	conn *countedConn
	raw  rawStream
	user string
	most int // of a message
	one  bool
	head [headBytes]byte
	kept *kept // nil: a message gives its room back as soon as it is read
}

// receiver returns the reader of a call's messages; one: the call has only one.
func (s *Server) receiver(ctx context.Context, method string, one bool) (*receiver, error) {
	raw, ok := grpc.ServerTransportStreamFromContext(ctx).(rawStream)
	if !ok {
		return nil, &failure.Error{Class: failure.Internal, Reason: "gRPC does not expose the bytes of calls"}
	}
	r := &receiver{s: s, conn: connectionOf(ctx), raw: raw, most: s.b.MaxBodyBytes() + headRoomBytes, one: one}
	if isOpen(method) {
		r.most = maxOpenBytes
	} else if who, err := s.b.Logins.Who(ctx); err == nil && who != nil {
		r.user = who.User()
	}
	r.kept = keptOf(ctx)
	return r, nil
}

// next reads a message into m; io.EOF: there are no more.
func (r *receiver) next(ctx context.Context, m any) error {
	r.kept.letGo()
	if err := r.raw.ReadMessageHeader(r.head[:]); err != nil {
		if r.one && errors.Is(err, io.EOF) {
			return status.Error(codes.Internal, "the call ended without a request")
		}
		return cutShort(err)
	}
	n := int(binary.BigEndian.Uint32(r.head[1:]))
	if n > r.most {
		return status.Errorf(codes.ResourceExhausted, "a message of %d bytes is larger than the limit of %d", n, r.most)
	}
	if n > windowBytes {
		return r.large(ctx, n, m)
	}
	return r.whole(n, m)
}

// whole reads a message of n bytes into m and checks what follows it.
func (r *receiver) whole(n int, m any) error {
	data, err := r.read(n)
	if err != nil {
		return err
	}
	if err := r.decode(r.head[0], data, m); err != nil {
		return err
	}
	return r.last()
}

// inPortions is whole for a message of more than windowBytes. Each step is small, so that nobody
// else has to wait for long.
func (r *receiver) inPortions(n int, m any) error {
	var all []byte
	for have := 0; have < n; {
		portion, err := r.read(min(n-have, portionBytes))
		if err != nil {
			return err
		}
		if all == nil { // it takes memory only once some of it has arrived
			all = make([]byte, n)
		}
		have += r.conn.gather(all[have:], portion)
	}
	if err := r.decodeLarge(r.head[0], all, m); err != nil {
		return err
	}
	return r.last()
}

// read reads n bytes of a message.
func (r *receiver) read(n int) (mem.BufferSlice, error) {
	data, err := r.raw.Read(n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, cutShort(err)
	}
	return data, nil
}

// last waits for the end of a call that has only one message.
func (r *receiver) last() error {
	if r.one {
		return r.end(r.head[:1])
	}
	return nil
}

// end waits for the end of a call with a single message.
func (r *receiver) end(b []byte) error {
	switch err := r.raw.ReadMessageHeader(b); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return cutShort(err)
	}
	return status.Error(codes.Internal, "the call has more than one request")
}

// large reads a message that does not fit into the flow-control window, once there is room for it.
// If it takes too long, the call ends; the goroutine that reads it ends with the call.
func (r *receiver) large(ctx context.Context, n int, m any) error {
	a := &asked{conn: r.conn, user: r.user, bytes: int64(n), keeps: r.kept != nil}
	release, err := r.s.receiving.acquire(ctx, a)
	if err != nil {
		return err
	}
	whole := make(chan error, 1)
	go func() {
		err := r.inPortions(n, m)
		if err != nil || r.kept == nil {
			release()
		}
		whole <- err
	}()
	began := time.Now()
	scarce := scarceTime + time.Duration(n)*time.Second/scarceBytesPerSec
	most := receiveTime + time.Duration(n)*time.Second/receiveBytesPerSec
	look := time.NewTimer(scarce)
	defer look.Stop()
	for {
		select {
		case err := <-whole:
			if err == nil {
				r.kept.keep(a, release)
			}
			return err
		case <-look.C:
		}
		age := time.Since(began)
		if age >= most || r.s.receiving.node.Scarce() {
			go func() {
				if <-whole == nil && r.kept != nil {
					release()
				}
			}()
			return r.tooSlow(n, age)
		}
		look.Reset(min(scarceLook, most-age))
	}
}

// tooSlow is the error of a call whose message arrives too slowly.
func (r *receiver) tooSlow(n int, age time.Duration) error {
	r.s.receiving.late.Add(1)
	r.s.log.Warn("a call is ended because its message does not arrive", slog.String("client", r.conn.RemoteAddr().String()),
		slog.String("user", r.user), slog.Int("bytes", n), slog.Duration("after", age.Round(time.Millisecond)))
	return &failure.Error{
		Class: failure.ResourceExhausted, Kind: "message", RetryAfter: receiveRetry,
		Reason: fmt.Sprintf("the message of %d bytes has not arrived within %v, and others may need its room; send it faster, or send smaller messages",
			n, age.Round(time.Millisecond)),
	}
}

// cutShort is the error of a call that ended within a message.
func cutShort(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		return status.Error(codes.Internal, "the call ended within a message")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.Unavailable, err.Error())
}
