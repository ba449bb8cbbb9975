package queues

import (
	"context"
	"encoding/base64"
	"strings"
	"sync"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
)

// Bounds of a page of queues.
const (
	DefaultPageSize = 100
	MaxPageSize     = 1000
	// maxStatusCalls limits how many leaders are asked at the same time for one page.
	maxStatusCalls = 16
)

// Page returns a page of the queues that the caller may see (VH-12), sorted by vhost and name, and the token of
// the next page, "" on the last one. An empty vhost stands for all vhosts, and size 0 for DefaultPageSize.
func (qs *Queues) Page(ctx context.Context, vhost string, size int, token string, figures bool) ([]Queue, string, error) {
	c := qs.cluster
	seen, v, err := qs.Listable(ctx, vhost)
	if err != nil {
		return nil, "", err
	}
	after, err := decodePage(token)
	if err != nil {
		return nil, "", err
	}
	if size <= 0 {
		size = DefaultPageSize
	}
	size = min(size, MaxPageSize)
	var page []*catalog.QueueRecord
	next := ""
	for q := range v.Queues() {
		if !after.before(q) || !seen.Sees(permission.Queue(q.VHost, q.Name)) {
			continue
		}
		if len(page) == size {
			next = encodePage(page[size-1])
			break
		}
		page = append(page, q)
	}
	return qs.describePage(ctx, c, page, figures), next, ctx.Err()
}

// describePage asks the leaders of a page's queues at the same time, at most maxStatusCalls of them: a queue without a
// leader takes as long as the timeout.
func (qs *Queues) describePage(ctx context.Context, c *cluster.Cluster, page []*catalog.QueueRecord, figures bool) []Queue {
	out := make([]Queue, len(page))
	for i, rec := range page {
		out[i] = qs.describe(c.View(), rec)
	}
	if !figures {
		return out
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxStatusCalls)
	for i, rec := range page {
		slots <- struct{}{}
		wg.Go(func() {
			qs.addFigures(ctx, c, rec, &out[i])
			<-slots
		})
	}
	wg.Wait()
	return out
}

// pageStart is the last queue of the previous page. The zero value comes before all queues.
type pageStart struct {
	set         bool
	vhost, name string
}

// before reports whether a queue comes after pageStart, in the order of vhost and name.
func (p pageStart) before(q *catalog.QueueRecord) bool {
	if !p.set {
		return true
	}
	if n := strings.Compare(p.vhost, q.VHost); n != 0 {
		return n < 0
	}
	return p.name < q.Name
}

func encodePage(q *catalog.QueueRecord) string {
	return base64.RawURLEncoding.EncodeToString([]byte(q.VHost + "\x00" + q.Name))
}

// decodePage is the inverse of encodePage; "" stands for the first page. A NUL separates vhost and name, because
// neither contains one.
func decodePage(token string) (pageStart, error) {
	if token == "" {
		return pageStart{}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	vhost, name, ok := strings.Cut(string(b), "\x00")
	if err != nil || !ok {
		return pageStart{}, failure.BadPageToken(token)
	}
	return pageStart{set: true, vhost: vhost, name: name}, nil
}
