package peer

import (
	"fmt"
	"testing"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// exchangeStream takes what is sent.
type exchangeStream struct {
	grpc.ServerStreamingServer[nodev1.ExchangeFiguresResponse]
	sent []*nodev1.ExchangeFiguresResponse
}

func (s *exchangeStream) Send(r *nodev1.ExchangeFiguresResponse) error {
	s.sent = append(s.sent, r)
	return nil
}

// The counts of thousands of exchanges are sent in parts, each once.
func TestExchangeFigures(t *testing.T) {
	const exchanges = 2*exchangeBatch + 1
	c, own := catalog.New(), clients.New()
	for i := range exchanges {
		name := fmt.Sprint("x", i)
		cmd := &catalog.DeclareExchange{VHost: catalog.DefaultVHost, Name: name, Type: catalog.ExchangeFanout, Durable: true}
		if r := c.Apply(c.View().Index()+1, 1, cmd); r.Err != nil {
			t.Fatal(r.Err)
		}
		x, _ := c.View().Exchange(catalog.DefaultVHost, name)
		own.ExchangeCounts(x, c.View).Add(i)
	}
	s := &exchangeStream{}
	if err := NewClients(&Peers{View: c.View}, own, 1, nil).ExchangeFigures(&nodev1.ExchangeFiguresRequest{}, s); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range s.sent {
		if len(r.GetExchanges()) > exchangeBatch {
			t.Errorf("%d exchanges in a part", len(r.GetExchanges()))
		}
		for _, x := range r.GetExchanges() {
			if want := fmt.Sprint("x", x.GetPublishedOut()); x.GetName() != want || x.GetPublishedIn() != 1 || x.GetVhost() != catalog.DefaultVHost || seen[want] {
				t.Errorf("%v, want %s", x, want)
			}
			seen[x.GetName()] = true
		}
	}
	if len(seen) != exchanges || len(s.sent) != 3 {
		t.Errorf("%d exchanges in %d parts", len(seen), len(s.sent))
	}
}
