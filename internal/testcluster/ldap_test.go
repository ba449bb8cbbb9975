package testcluster_test

import (
	"encoding/base64"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jimlambrt/gldap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/access"
	"github.com/quorate/quorate/access/ldap"
	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// directory starts one where each user's password is its name, and all are in the group readers.
func directory(t *testing.T) (url string, stop func()) {
	t.Helper()
	s, err := gldap.NewServer(gldap.WithLogger(hclog.NewNullLogger()))
	if err != nil {
		t.Fatal(err)
	}
	mux, err := gldap.NewMux()
	if err != nil {
		t.Fatal(err)
	}
	bind := func(w *gldap.ResponseWriter, r *gldap.Request) {
		code := gldap.ResultInvalidCredentials
		if m, err := r.GetSimpleBindMessage(); err == nil && m.UserName == "uid="+string(m.Password)+",dc=x" {
			code = gldap.ResultSuccess
		}
		_ = w.Write(r.NewBindResponse(gldap.WithResponseCode(code)))
	}
	search := func(w *gldap.ResponseWriter, r *gldap.Request) {
		_ = w.Write(r.NewSearchResponseEntry("cn=readers,ou=g", gldap.WithAttributes(map[string][]string{"cn": {"readers"}})))
		_ = w.Write(r.NewSearchDoneResponse(gldap.WithResponseCode(gldap.ResultSuccess)))
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := errors.Join(l.Close(), mux.Bind(bind), mux.Search(search), s.Router(mux)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(address) }()
	testcluster.Poll(t, "the directory is there", func() error {
		if !s.Ready() {
			return errors.New("it starts")
		}
		return nil
	})
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		if err := errors.Join(s.Stop(), <-done); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return "ldap://" + address, stop
}

// ID-1, ID-6: users of a directory and of the catalog log in side by side; a directory that is gone refuses
// nobody.
func TestDirectory(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a node")
	}
	url, stop := directory(t)
	b := ldap.New(ldap.Config{
		Servers: []string{url}, UserDN: "uid=${username},dc=x", GroupBase: "ou=g", Groups: map[string][]string{"readers": {"read:%2F/in"}},
	})
	c := testcluster.StartWith(t, 1, broker.Config{
		Backends: func(own access.Backend) []access.Backend { return []access.Backend{own, access.Guard(b, -1, 0)} },
	})
	root := openClient(t, c)
	ctx := testContext(t)
	for _, name := range []string{"in", "out"} {
		if _, err := root.DeclareQueue(ctx, client.Queue{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	ann := openClient(t, c, as("ann", "ann"))
	get := func(queue string) error {
		_, err := ann.Get(ctx, client.GetRequest{Queue: queue, AutoAck: true})
		return err
	}
	if err := get("in"); err != nil {
		t.Error(err)
	}
	refusal(t, "get", get("out"), "no read access")
	for range 2 * identity.LoginBurst { // what is right costs no try, although the first backend refuses it
		if _, err := ann.WhoAmI(ctx); err != nil {
			t.Fatal(err)
		}
	}
	code := func(err error) codes.Code {
		var e *client.Error
		errors.As(err, &e)
		if e == nil {
			return codes.OK
		}
		return e.Code
	}
	if err := loginError(ctx, t, c, as("ann", "wrong")); code(err) != codes.Unauthenticated {
		t.Errorf("a wrong password: %v", err)
	}
	if err := loginError(ctx, t, c, as("guest", "wrong")); code(err) != codes.Unauthenticated {
		t.Errorf("a wrong password of a user of the catalog: %v", err)
	}
	if _, err := ann.MintToken(ctx, time.Minute); client.ClassOf(err) != client.NotAllowed {
		t.Errorf("mint: %v", err)
	}
	stop()
	cc, basic := authorized(t, c, "Basic "+base64.StdEncoding.EncodeToString([]byte("ann:ann")))
	if _, err := brokerv1.NewAccessClient(cc).WhoAmI(basic, &brokerv1.WhoAmIRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("without the directory: %v", err)
	}
	if _, err := root.WhoAmI(ctx); err != nil {
		t.Errorf("a user of the catalog: %v", err)
	}
	if n := c.Broker(0).Logins.LoginCounts()["ldap"]; n.Accepted == 0 || n.Refused == 0 || n.Unavailable == 0 {
		t.Errorf("%+v", n)
	}
}
