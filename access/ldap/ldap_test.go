package ldap_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jimlambrt/gldap"

	"github.com/quorate/quorate/access"
	"github.com/quorate/quorate/access/ldap"
	"github.com/quorate/quorate/internal/authority"
)

const patience = 20 * time.Second

// directory is a real server with a few entries.
type directory struct {
	url string
	tls *tls.Config // of StartTLS

	mu       sync.Mutex
	binds    []string // names and passwords
	searches []string // filters
	code     int      // of every bind; 0: as it should be
}

// entries are the passwords by the names of entries.
func entries() map[string]string {
	return map[string]string{
		"uid=ann,ou=people,dc=x": "secret", `uid=a\,b,ou=people,dc=x`: "comma", "cn=service,dc=x": "service",
		"uid=twin,ou=a,dc=x": "one", "uid=twin,ou=b,dc=x": "two",
	}
}

func serve(t *testing.T, options ...gldap.Option) *directory {
	t.Helper()
	d := &directory{tls: material(t)}
	s, err := gldap.NewServer(gldap.WithLogger(hclog.NewNullLogger()))
	if err != nil {
		t.Fatal(err)
	}
	mux, err := gldap.NewMux()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(mux.Bind(d.bind), mux.Search(d.search), mux.ExtendedOperation(d.startTLS, gldap.ExtendedOperationStartTLS), s.Router(mux)); err != nil {
		t.Fatal(err)
	}
	address := free(t)
	done := make(chan error, 1)
	go func() { done <- s.Run(address, options...) }()
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(patience); !s.Ready(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the directory does not start")
		}
	}
	_, port, _ := net.SplitHostPort(address)
	d.url = "ldap://localhost:" + port
	return d
}

func free(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func (d *directory) bind(w *gldap.ResponseWriter, r *gldap.Request) {
	code := gldap.ResultInvalidCredentials
	if m, err := r.GetSimpleBindMessage(); err == nil {
		d.mu.Lock()
		d.binds = append(d.binds, m.UserName+" "+string(m.Password))
		if password, known := entries()[m.UserName]; known && (string(m.Password) == password || m.Password == "") { // as real ones do
			code = gldap.ResultSuccess
		}
		if d.code != 0 {
			code = d.code
		}
		d.mu.Unlock()
	}
	_ = w.Write(r.NewBindResponse(gldap.WithResponseCode(code)))
}

func (d *directory) startTLS(w *gldap.ResponseWriter, r *gldap.Request) {
	answer := r.NewExtendedResponse(gldap.WithResponseCode(gldap.ResultSuccess))
	answer.SetResponseName(gldap.ExtendedOperationStartTLS)
	if w.Write(answer) == nil {
		_ = r.StartTLS(d.tls) // TLS reports what fails
	}
}

func (d *directory) search(w *gldap.ResponseWriter, r *gldap.Request) {
	m, err := r.GetSearchMessage()
	if err != nil {
		_ = w.Write(r.NewSearchDoneResponse(gldap.WithResponseCode(gldap.ResultOperationsError)))
		return
	}
	d.mu.Lock()
	d.searches = append(d.searches, m.Filter)
	d.mu.Unlock()
	for filter, found := range map[string][][2]string{
		"(uid=ann)": {{"uid=ann,ou=people,dc=x", "ann"}}, "(uid=ANN)": {{"uid=ann,ou=people,dc=x", "ann"}},
		"(uid=twin)": {{"uid=twin,ou=a,dc=x", "twin"}, {"uid=twin,ou=b,dc=x", "twin"}},
		"(uid=*)":    {{"uid=ann,ou=people,dc=x", "ann"}},
	} {
		if m.Filter == filter && m.BaseDN == "dc=x" {
			for _, x := range found {
				_ = w.Write(r.NewSearchResponseEntry(x[0], gldap.WithAttributes(map[string][]string{"uid": {x[1]}})))
			}
		}
	}
	if m.BaseDN == "ou=groups,dc=x" && m.Filter == "(member=uid=ann,ou=people,dc=x)" {
		for _, g := range []string{"readers", "watchers", "others"} {
			_ = w.Write(r.NewSearchResponseEntry("cn="+g+",ou=groups,dc=x", gldap.WithAttributes(map[string][]string{"CN": {g}})))
		}
	}
	_ = w.Write(r.NewSearchDoneResponse(gldap.WithResponseCode(gldap.ResultSuccess)))
}

func (d *directory) seen() (binds, searches []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.binds), slices.Clone(d.searches)
}

func (d *directory) answer(code int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.code = code
}

func pattern(servers ...string) ldap.Config {
	return ldap.Config{
		Servers: servers, UserDN: "uid=${username},ou=people,dc=x", GroupBase: "ou=groups,dc=x",
		Groups: map[string][]string{"readers": {"read:%2F/orders"}, "watchers": {"tag:monitoring"}, "chiefs": {"tag:administrator"}},
	}
}

func lookup(servers ...string) ldap.Config {
	c := pattern(servers...)
	c.UserDN, c.LookupBase, c.LookupAttribute, c.LookupDN, c.LookupPassword = "", "dc=x", "uid", "cn=service,dc=x", "service"
	return c
}

func ask(t *testing.T, c ldap.Config, user, password string) (*access.Identity, error) {
	t.Helper()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return ldap.New(c).Authenticate(ctx, access.Credentials{User: user, Secret: password, Now: time.Now()})
}

func wantWrong(t *testing.T, what string, id *access.Identity, err error) {
	t.Helper()
	if no, is := errors.AsType[*access.Refused](err); id != nil || !is || no.Reason != access.WrongPassword {
		t.Errorf("%s: %v, %v", what, id, err)
	}
}

func wantUnavailable(t *testing.T, what string, id *access.Identity, err error) {
	t.Helper()
	if _, is := errors.AsType[*access.Unavailable](err); id != nil || !is {
		t.Errorf("%s: %v, %v", what, id, err)
	}
}

// ID-6: who binds is in; the groups say what may be done.
func TestUsers(t *testing.T) {
	d := serve(t)
	for what, c := range map[string]ldap.Config{"pattern": pattern(d.url), "lookup": lookup(d.url)} {
		id, err := ask(t, c, "ann", "secret")
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		g, entered := id.Rights.In("/")
		if id.Name != "ann" || !slices.Equal(id.Tags, []string{"monitoring"}) || !entered || g[access.Write] != nil || !id.Expires.IsZero() {
			t.Errorf("%s: %+v", what, id)
		}
		if may, _ := g[access.Read].Match("orders"); !may {
			t.Errorf("%s: no read access", what)
		}
		if _, entered := id.Rights.In("other"); entered {
			t.Errorf("%s: another vhost is entered", what)
		}
		for _, x := range [][2]string{{"ann", "wrong"}, {"bob", "secret"}, {" ann", "secret"}, {"ann ", "secret"}, {"", "secret"}, {"a\x00b", "secret"}} {
			id, err := ask(t, c, x[0], x[1])
			wantWrong(t, what+" "+strconv.Quote(x[0]), id, err)
		}
	}
	// The directory's way of writing a name counts, so that there are no two of one user.
	if id, err := ask(t, lookup(d.url), "ANN", "secret"); err != nil || id.Name != "ann" {
		t.Errorf("%v, %v", id, err)
	}
	id, err := ask(t, lookup(d.url), "twin", "one")
	wantWrong(t, "two entries", id, err)
}

// An empty password is never bound: the directory takes it for nobody's, and says yes.
func TestEmptyPassword(t *testing.T) {
	d := serve(t)
	for what, c := range map[string]ldap.Config{"pattern": pattern(d.url), "lookup": lookup(d.url)} {
		id, err := ask(t, c, "ann", "")
		wantWrong(t, what, id, err)
	}
	if binds, searches := d.seen(); len(binds)+len(searches) > 0 {
		t.Errorf("the directory was asked: %q %q", binds, searches)
	}
}

// A user's name is no part of a DN or filter beyond itself.
func TestInjection(t *testing.T) {
	d := serve(t)
	for _, user := range []string{"*", "ann)(uid=*", "*)(|(uid=*", "ann,ou=people,dc=x", "x,cn=service", "ann+uid=x", `ann\`, "#ann", `"ann"`, "ann;uid=x"} {
		for what, c := range map[string]ldap.Config{"pattern": pattern(d.url), "lookup": lookup(d.url)} {
			id, err := ask(t, c, user, "secret")
			wantWrong(t, what+" "+user, id, err)
		}
	}
	if _, err := ask(t, pattern(d.url), "a,b", "comma"); err != nil {
		t.Errorf("a name with a comma: %v", err)
	}
	_, searches := d.seen()
	for _, f := range searches {
		if strings.HasPrefix(f, "(uid=*") || strings.HasPrefix(f, "(|") || strings.HasPrefix(f, "(&") {
			t.Errorf("a name has become a filter: %s", f)
		}
	}
}

// A directory that does not answer, or is busy, has refused nobody; the next one is asked.
func TestDirectoryDown(t *testing.T) {
	nobody := "ldap://" + free(t)
	d := serve(t)
	if _, err := ask(t, pattern(nobody, d.url), "ann", "secret"); err != nil {
		t.Errorf("the second directory: %v", err)
	}
	id, err := ask(t, pattern(nobody), "ann", "secret")
	wantUnavailable(t, "nobody there", id, err)
	for _, code := range []int{gldap.ResultBusy, gldap.ResultUnavailable, gldap.ResultOperationsError} {
		d.answer(code)
		id, err := ask(t, pattern(d.url), "ann", "secret")
		wantUnavailable(t, strconv.Itoa(code), id, err)
	}
	d.answer(0)
	c := lookup(d.url)
	c.LookupPassword = "old"
	id, err = ask(t, c, "ann", "secret")
	wantUnavailable(t, "a wrong password of the service", id, err)
}

// What does not answer at all ends with the time that there is.
func TestSilentDirectory(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	b := access.Guard(ldap.New(pattern("ldap://"+l.Addr().String())), -1, 100*time.Millisecond)
	id, err := b.Authenticate(t.Context(), access.Credentials{User: "ann", Secret: "secret"})
	wantUnavailable(t, "silence", id, err)
}

// issued is the authority of the directories, and a certificate.
var issued = sync.OnceValues(func() (authority.Pair, authority.Pair) {
	a, err := authority.New("directory", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	if err != nil {
		panic(err)
	}
	pair, err := a.Issue(authority.Request{
		CommonName: "localhost", DNSNames: []string{"localhost"}, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	})
	if err != nil {
		panic(err)
	}
	return a.Pair(), pair
})

func material(t *testing.T) *tls.Config {
	t.Helper()
	_, pair := issued()
	own, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}}
}

// TLS from the start, or after StartTLS, by an authority of its own; nobody else's certificate is taken, and
// nothing is said to it.
func TestTLS(t *testing.T) {
	plain, secure := serve(t), serve(t, gldap.WithTLSConfig(material(t)))
	start := pattern(plain.url)
	start.StartTLS = true
	for what, row := range map[string]struct {
		c ldap.Config
		d *directory
	}{
		"ldaps": {pattern(strings.Replace(secure.url, "ldap:", "ldaps:", 1)), secure}, "StartTLS": {start, plain},
	} {
		id, err := ask(t, row.c, "ann", "secret")
		wantUnavailable(t, what+", an unknown authority", id, err)
		if binds, _ := row.d.seen(); len(binds) > 0 {
			t.Errorf("%s: an outsider was told %q", what, binds)
		}
		ca, _ := issued()
		row.c.Authorities = x509.NewCertPool()
		row.c.Authorities.AppendCertsFromPEM(ca.Cert)
		if _, err := ask(t, row.c, "ann", "secret"); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*ldap.Config){
		"servers is empty":      func(c *ldap.Config) { c.Servers = nil },
		"use ldaps://, or set":  func(c *ldap.Config) { c.Servers = []string{"ldap://ldap.example"} },
		"TLS from the start":    func(c *ldap.Config) { c.Servers, c.StartTLS = []string{"ldaps://ldap.example"}, true },
		"use ldaps:// or":       func(c *ldap.Config) { c.Servers = []string{"https://ldap.example"} },
		"put ${username}":       func(c *ldap.Config) { c.UserDN = "uid=ann" },
		"use one of them":       func(c *ldap.Config) { c.LookupBase = "dc=x" },
		"dn_lookup_attribute":   func(c *ldap.Config) { c.UserDN = "" },
		"go together":           func(c *ldap.Config) { c.LookupDN = "cn=x" },
		"without group_base":    func(c *ldap.Config) { c.GroupBase = "" },
		`gives "tag" to "ops"`:  func(c *ldap.Config) { c.Groups["ops"] = []string{"tag"} },
		`gives "read:x" to "o"`: func(c *ldap.Config) { c.Groups["o"] = []string{"read:x"} },
	} {
		c := pattern("ldaps://ldap.example")
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
