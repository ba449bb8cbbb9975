package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/quorate/quorate/broker/failure"
)

const (
	// MaxStreams bounds the streams of server-sent events that a node serves at the same time.
	MaxStreams = 256
	// streamHeartbeat is the time between two comments that keep a quiet stream's connection alive.
	streamHeartbeat = 15 * time.Second
	// streamWriteTime is how long one write to a stream may take: a client that does not read must
	// not hold the node's memory.
	streamWriteTime = 10 * time.Second
)

// The names of events in a stream; what the stream is about has none, so that browsers hand it to
// onmessage.
const (
	eventBegin = "begin" // the first; its id is the place where the stream begins
	eventEnd   = "end"   // the last event
	eventFault = "fault" // the last: the stream ends because of an error, in the form of all errors
)

// stream is an answer of server-sent events. Its methods may be called concurrently.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController

	mu    sync.Mutex // held while writing
	begun bool       // the header is sent: an error can only be sent as an event
	lost  error      // the client is gone
}

// stream answers with server-sent events until run returns. An error before the first event is an
// ordinary answer. The context of run ends with the request, which ends when the node stops, and
// with the caller's login (ID-5).
func (c *call) stream(run func(ctx context.Context, s *stream) error) (reply, error) {
	select {
	case c.api.streams <- struct{}{}:
		defer func() { <-c.api.streams }()
	default:
		return reply{}, &failure.Error{
			Class: failure.ResourceExhausted, Kind: "stream", RetryAfter: time.Second,
			Reason: fmt.Sprintf("this node serves %d streams of events already, which is its limit; close one, or use another node", cap(c.api.streams)),
		}
	}
	s := &stream{w: c.w, control: http.NewResponseController(c.w)}
	// Without this the server would end the request's context when the time for reading it is over.
	if err := s.control.SetReadDeadline(time.Time{}); err != nil {
		return reply{}, fmt.Errorf("rest: the connection takes no time limits, which a stream needs: %w", err)
	}
	ctx, end := context.WithCancelCause(c.Context())
	stop := c.api.Broker.Logins.WatchLogin(ctx, end)
	var heartbeats sync.WaitGroup
	heartbeats.Go(func() { s.heartbeat(ctx, c.api.heartbeat, c.stillAllowed, end) })
	err := run(ctx, s)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	stop()
	end(nil)
	heartbeats.Wait() // the answer must not be written to after this
	return s.finish(c, err)
}

// send sends one event. Its id, if there is one, is where a client that was cut off continues.
func (s *stream) send(id, name string, data any) error {
	b := &bytes.Buffer{}
	if id != "" {
		fmt.Fprintf(b, "id: %s\n", id)
	}
	if name != "" {
		fmt.Fprintf(b, "event: %s\n", name)
	}
	b.WriteString("data: ")
	e := json.NewEncoder(b) // it writes one line
	e.SetEscapeHTML(false)
	if err := e.Encode(data); err != nil {
		return err
	}
	b.WriteString("\n")
	return s.write(b.Bytes())
}

// write writes within streamWriteTime. After an error nothing more is written.
func (s *stream) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil {
		return s.lost
	}
	s.begin()
	err := s.control.SetWriteDeadline(time.Now().Add(streamWriteTime))
	if err == nil {
		_, err = s.w.Write(b)
	}
	if err == nil {
		err = s.control.Flush()
	}
	s.lost = err
	return err
}

// begin sends the header before the first event.
func (s *stream) begin() {
	if s.begun {
		return
	}
	s.begun = true
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy in front must not gather events
	s.w.WriteHeader(http.StatusOK)
}

// stillAllowed logs the caller in once more, as a token may have been revoked, a user deleted or deprived of a tag. What
// this node cannot decide at the moment is no reason to end a stream.
func (c *call) stillAllowed() error {
	in, err := c.api.Guard.Header(c.Request)
	if err == nil && c.route.tag != "" {
		err = c.api.Broker.Logins.Require(in.Context(), c.route.tag)
	}
	if e, is := errors.AsType[*failure.Error](err); is && (e.Unauthenticated || e.Class == failure.AccessRefused || e.Class == failure.NotAllowed) {
		return err
	}
	return nil
}

// heartbeat sends a comment whenever every has passed, until ctx ends. A write that fails ends the
// stream, and so does a caller that is no longer allowed to see it.
func (s *stream) heartbeat(ctx context.Context, every time.Duration, allowed func() error, end context.CancelCauseFunc) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			err := allowed()
			if err == nil {
				err = s.write([]byte(": the node is there\n\n"))
			}
			if err != nil {
				end(err)
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// finish returns an error if nothing was sent yet. Otherwise it sends the client, if there still is
// one, the reason why the stream ends.
func (s *stream) finish(c *call, err error) (reply, error) {
	switch {
	case !s.begun:
		return reply{}, err
	case err == nil || s.lost != nil || c.Context().Err() != nil:
		return reply{sent: true}, nil //nolint:nilerr // nobody is there to learn of it, or it is not one
	}
	_, body := faultOf(err)
	if err := s.send("", eventFault, body); err != nil {
		c.api.Logger.Debug("the end of a stream could not be sent", "error", err)
	}
	return reply{sent: true}, nil
}
