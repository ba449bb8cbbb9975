package grpcapi

import (
	"google.golang.org/grpc"

	"github.com/quorate/quorate/broker"
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
