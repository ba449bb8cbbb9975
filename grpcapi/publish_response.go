package grpcapi

import (
	"context"
	"strconv"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/internal/wait"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// responses sends the results of a Publish stream. What it sends with is used again. One goroutine may use it.
type responses struct {
	stream grpc.BidiStreamingServer[brokerv1.PublishRequest, brokerv1.PublishResponse]
	opened bool // the caller knows how large its batches may be
	first  brokerv1.PublishResponse
	result brokerv1.PublishResult
	more   []*brokerv1.PublishResponse // as many as one response had at most, with a result each
}

// send sends results, one in a response, or up to maxBatch where the caller reads batches.
func (r *responses) send(results []broker.Result, batches bool) error {
	if batches && !r.opened {
		r.opened = true
		if err := r.stream.Send(&brokerv1.PublishResponse{MaxBatch: maxBatch}); err != nil {
			return err
		}
	}
	for len(results) > 0 {
		n := 1
		if batches {
			n = together(results)
		}
		r.first.Sequence, r.first.Result = results[0].Token, &r.result
		toResult(&r.result, &results[0])
		for len(r.more) < n-1 {
			r.more = append(r.more, &brokerv1.PublishResponse{Result: &brokerv1.PublishResult{}})
		}
		r.first.More = r.more[:n-1]
		for i, m := range r.first.More {
			m.Sequence = results[i+1].Token
			toResult(m.Result, &results[i+1])
		}
		if err := r.stream.Send(&r.first); err != nil {
			return err
		}
		results = results[n:]
	}
	return nil
}

// together returns how many results fit into one response. One that names queues or an error ends it: there may be
// thousands of queues.
func together(results []broker.Result) int {
	for i := range min(len(results), maxBatch) {
		if len(results[i].Rejections) > 0 || results[i].Err != nil {
			return i + 1
		}
	}
	return min(len(results), maxBatch)
}

// result receives the result of one message. It may be called from any goroutine. A producer's message that was not
// taken gets none: the stream takes no further messages and ends, and the client sends this one again before those
// behind it, here or elsewhere (PUB-6). With a result, the client would continue behind it, or mistake the queue's
// answer to a repeat, which a later message has decided meanwhile, for the message's own.
func (p *publishStream) result(r broker.Result) {
	p.mu.Lock()
	p.inFlight--
	if r.NotTaken {
		p.unsent--
		p.ending = true
		p.notTaken = errNotTaken(&r)
	} else {
		p.results = append(p.results, r)
	}
	p.mu.Unlock()
	wait.Wake(p.news)
}

// errNotTaken ends a stream at a message that was not taken.
func errNotTaken(r *broker.Result) error {
	return &failure.Error{
		Class: failure.Unavailable, Kind: "message", Arg: "sequence", Value: strconv.FormatUint(r.Token, 10), RetryAfter: retryNow,
		Reason: "was not taken: " + r.Rejections[0].Reason + "; open another stream and send it again, with all behind it",
	}
}

// sent makes room for as many messages as results were sent.
func (p *publishStream) sent(results int) {
	p.mu.Lock()
	p.unsent -= results
	p.mu.Unlock()
	wait.Wake(p.room)
}

// write sends results, batching those that have gathered. When the reader or the connection's life
// has ended, it first waits until every accepted message has a result, unless the node is cut off or a
// message was not taken; the client resends what has none.
func (p *publishStream) write() (end error) {
	life, cut := lifeOf(p.stream.Context()), p.s.b.Serving.CutOff()
	responses := responses{stream: p.stream}
	var batch []broker.Result
	ending := false
	for {
		p.mu.Lock()
		batch, p.results = p.results, batch[:0]
		waiting, batches, notTaken := p.inFlight, p.batches, p.notTaken
		p.mu.Unlock()
		if err := responses.send(batch, batches); err != nil {
			return err
		}
		if len(batch) > 0 {
			p.sent(len(batch))
			clear(batch)
			continue
		}
		if notTaken != nil { // others may get no result for a long time
			return notTaken
		}
		if ending && waiting == 0 {
			return end
		}
		over := life.Done()
		if ending {
			over = nil
		}
		select {
		case <-p.news:
		case err := <-p.read:
			if !ending {
				ending, end = true, err
			}
		case <-over:
			p.takeNoMore()
			ending, end = true, context.Cause(life)
		case <-cut: // accepted messages may get no result for a long time
			p.takeNoMore()
			return p.s.b.Serving.ErrCutOff()
		case <-p.stream.Context().Done():
			return p.stream.Context().Err()
		}
	}
}
