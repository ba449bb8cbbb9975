package browsertest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"

	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// questions counts what nodes ask each other, by the names of the calls.
type questions struct {
	mu    sync.Mutex
	asked map[string]int
}

// countQuestions counts for clusters that start from now on, until the test ends. It changes what all clusters of the
// process have in common, so no test may run beside it.
func countQuestions(t testing.TB) *questions {
	t.Helper()
	q := &questions{asked: map[string]int{}}
	desc := &nodev1.Node_ServiceDesc
	methods, streams := desc.Methods, desc.Streams
	t.Cleanup(func() { desc.Methods, desc.Streams = methods, streams })
	desc.Methods, desc.Streams = slices.Clone(methods), slices.Clone(streams)
	for i := range methods {
		m, of := &desc.Methods[i], methods[i].Handler
		m.Handler = func(srv any, ctx context.Context, read func(any) error, x grpc.UnaryServerInterceptor) (any, error) {
			q.count(m.MethodName)
			return of(srv, ctx, read, x)
		}
	}
	for i := range streams {
		s, of := &desc.Streams[i], streams[i].Handler
		s.Handler = func(srv any, stream grpc.ServerStream) error {
			q.count(s.StreamName)
			return of(srv, stream)
		}
	}
	return q
}

func (q *questions) count(call string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked[call]++
}

// since returns how often each call was made since a count before.
func (q *questions) since(before map[string]int) map[string]int {
	now := q.all()
	for call, n := range before {
		now[call] -= n
	}
	return now
}

// all returns how often each call was made.
func (q *questions) all() map[string]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.asked)
}
