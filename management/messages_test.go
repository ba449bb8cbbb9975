package management_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/management"
	"github.com/quorate/quorate/management/slot"
)

// unread is an answer of which its client reads nothing until read is closed.
type unread struct {
	*httptest.ResponseRecorder
	once  sync.Once
	begun chan struct{} // closed with the first bytes
	read  chan struct{}
}

// Write implements http.ResponseWriter.
func (u *unread) Write(b []byte) (int, error) {
	u.once.Do(func() { close(u.begun) })
	<-u.read
	return u.ResponseRecorder.Write(b)
}

// Pages that show messages count among a node's requests with messages until they are written, as those of the HTTP API
// do.
func TestPagesWithMessages(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	who, err := c.Broker(0).Logins.Login(t.Context(), "guest", "guest", netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	token, err := c.Broker(0).Logins.MintToken(identity.WithIdentity(t.Context(), who), 0)
	if err != nil {
		t.Fatal(err)
	}
	h := management.New(management.Config{Broker: c.Broker(0), Node: c.Name(0), Version: "test"})
	t.Cleanup(h.Close)
	request := func(ctx context.Context, method, path, body string) *http.Request {
		r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
		r.RemoteAddr = "127.0.0.1:1" // guest logs in from the node's own host
		r.SetBasicAuth("guest", "guest")
		r.AddCookie(&http.Cookie{Name: "quorate_session", Value: token.Text})
		return r
	}
	does := func(ctx context.Context, method, path, body string) int {
		out := httptest.NewRecorder()
		h.ServeHTTP(out, request(ctx, method, path, body))
		return out.Code
	}
	if code := does(t.Context(), http.MethodPut, "/api/queues/%2F/q", "{}"); code != http.StatusCreated {
		t.Fatal(code)
	}
	const publish, messages = "/api/exchanges/%2F/amq.default/publish", "/v1/queues/%2F/q/messages"
	if code := does(t.Context(), http.MethodPost, publish, `{"routing_key":"q","payload":"x","properties":{},"payload_encoding":"string"}`); code != http.StatusOK {
		t.Fatal(code)
	}
	var pages sync.WaitGroup
	var all []*unread
	read := make(chan struct{})
	for range slot.RequestsOfUser {
		u := &unread{ResponseRecorder: httptest.NewRecorder(), begun: make(chan struct{}), read: read}
		all = append(all, u)
		pages.Go(func() {
			h.ServeHTTP(u, request(t.Context(), http.MethodGet, "/ui/queue/messages?vhost=%2F&name=q", ""))
		})
		select {
		case <-u.begun:
		case <-time.After(patience):
			t.Fatal("a page does not come")
		}
	}
	short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if code := does(short, http.MethodGet, messages, ""); code == http.StatusOK {
		t.Error("a user who does not read pages with messages gets more of them")
	}
	close(read)
	pages.Wait()
	for _, u := range all {
		if u.Code != http.StatusOK || !strings.Contains(u.Body.String(), "<html") {
			t.Errorf("a page: %d", u.Code)
		}
	}
	if code := does(t.Context(), http.MethodGet, messages, ""); code != http.StatusOK {
		t.Errorf("after the pages were read: %d", code)
	}
}
