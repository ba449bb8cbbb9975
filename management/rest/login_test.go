package rest_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/management/rest"
)

// login sends a request with a body of a kind, and with a token unless it is empty.
func (a api) login(do, kind, body, token string) (code int, header http.Header, text string) {
	a.t.Helper()
	method, path, _ := strings.Cut(do, " ")
	r, err := http.NewRequestWithContext(a.t.Context(), method, a.base+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	out, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		a.t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(out)
}

// The kinds of bodies of a login.
const (
	asForm = "application/x-www-form-urlencoded"
	asJSON = "application/json"
)

// A login by form or JSON answers with a token, which logs in until it is ended. Both are recorded, once each.
func TestLogin(t *testing.T) {
	a, _ := one(t)
	hard := administrationPassword
	a.run([]row{{do: "PUT /api/users/ann", body: `{"password":"` + hard + `","tags":"monitoring"}`, code: 201}})
	form := url.Values{"username": {"ann"}, "password": {hard}}.Encode()
	for kind, body := range map[string]string{asForm: form, asJSON: `{"username":"ann","password":"` + hard + `"}`, asForm + "; charset=UTF-8": form} {
		code, header, text := a.login("POST /api/login", kind, body, "")
		if code != http.StatusOK || header.Get("Cache-Control") != "no-store" {
			t.Fatal(code, header, text)
		}
		var in struct {
			Token struct {
				Type, Value string
				ExpiresMs   int64 `json:"expires_ms"`
			}
			User struct {
				Name    string
				Tags    []string
				Minutes int `json:"login_session_timeout"`
			}
		}
		if err := json.Unmarshal([]byte(text), &in); err != nil {
			t.Fatal(err)
		}
		if in.Token.Type != "bearer" || in.Token.ExpiresMs == 0 || in.User.Name != "ann" || len(in.User.Tags) != 1 || in.User.Minutes != 480 {
			t.Errorf("%s: %+v", kind, in)
		}
		who := func() int {
			code, _, _ := a.login("GET /api/whoami", asJSON, "", in.Token.Value)
			return code
		}
		if code := who(); code != http.StatusOK {
			t.Errorf("with the token of a login: %d", code)
		}
		if code, _, text := a.login("DELETE /api/login", asJSON, "", in.Token.Value); code != http.StatusNoContent {
			t.Errorf("the end of a session: %d %s", code, text)
		}
		if code := who(); code != http.StatusUnauthorized {
			t.Errorf("with the token of a session that has ended: %d", code)
		}
	}
	a.run([]row{
		{do: "DELETE /api/login", code: 204},
		{who: "nobody", do: "DELETE /api/login", code: 401},
		{do: "GET /v1/audit?user=ann&operation=token.*&limit=100", code: 200, want: has(`"token.mint"`, `"token.revoke"`, `"protocol":"http"`)},
	})
}

// administrationPassword has what forms and JSON would read as something else if it were not escaped.
const administrationPassword = `p+ä %41&x:y=`

// What is no login is refused, and no answer repeats a password.
func TestLoginsThatAreRefused(t *testing.T) {
	a, _ := one(t)
	for _, x := range []struct {
		kind, body string
		code       int
	}{
		{asForm, "username=guest&password=hidden", http.StatusUnauthorized},
		{asForm, "username=nix&password=hidden", http.StatusUnauthorized},
		{asForm, "username=&password=", http.StatusUnauthorized},
		{asForm, "username=worker&password=p", http.StatusForbidden}, // without the tag management
		{asForm, "username=guest", http.StatusBadRequest},
		{asForm, "password=hidden", http.StatusBadRequest},
		{asForm, "%hidden", http.StatusBadRequest},
		{asForm, "", http.StatusBadRequest},
		{asJSON, `{"username":"guest","password":"hidden"`, http.StatusBadRequest},
		{asJSON, `{"username":"guest","password":["hidden"]}`, http.StatusBadRequest},
		{asJSON, `["hidden"]`, http.StatusBadRequest},
		{asJSON, `{"username":"guest","password":"guest"}` + strings.Repeat(" ", 16<<10), http.StatusBadRequest},
		{asJSON, `{"username":"guest","password":"` + strings.Repeat("x", identity.MaxPasswordBytes+1) + `"}`, http.StatusUnauthorized},
	} {
		code, _, text := a.login("POST /api/login", x.kind, x.body, "")
		if code != x.code || strings.Contains(text, "hidden") || strings.Contains(text, "bearer") {
			t.Errorf("%.80s: %d %s, want %d", x.body, code, text, x.code)
		}
	}
	a.run([]row{
		{do: "GET /v1/audit?user=worker&operation=token.*", code: 200, want: has(`!token.mint`)},
		{do: "GET /api/auth/attempts/node-0", code: 200, want: has(`"auth_attempts_failed":4`)},
	})
}

// openPaths are those that RabbitMQ answers without a login.
func openPaths() []string {
	const check = "/api/health/checks/"
	return []string{
		"/api/auth", "/api/login", "/api/version", check + "ready-to-serve-clients", check + "is-in-service", check + "below-node-connection-limit",
		check + "reached-target-cluster-size",
	}
}

// A caller who has not logged in learns that a check fails, and not why. A caller who sends credentials needs the tag.
func TestOpenPathsRevealLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	with := whole(c)
	with.Facts.Connections = func() (open, most int) { return 41, 41 }
	with.Facts.Expected = func() int { return 17 }
	a := on(t, rest.New(with), c, 0)
	const check = "GET /api/health/checks/"
	a.run([]row{
		{who: "nobody", do: "GET /api/auth", code: 200, want: has(`{"oauth_enabled":false}`)},
		{who: "nobody", do: "GET /api/version", code: 200, want: has(`"1.2.3"`)},
		{who: "nobody", do: check + "is-in-service", code: 200, want: has(`{"status":"ok"}`)},
		{who: "nobody", do: check + "ready-to-serve-clients", code: 200, want: has(`{"status":"ok"}`)},
		{who: "nobody", do: check + "below-node-connection-limit", code: 503, want: has(`"status":"failed"`, `"reason":"the limit of connections is reached"`, "!41")},
		{who: "nobody", do: check + "reached-target-cluster-size", code: 503, want: has(`"status":"failed"`, "!17", "!cluster.expect")},
		{who: "manager", do: check + "below-node-connection-limit", code: 503, want: has("41")},
		{who: "manager", do: check + "reached-target-cluster-size", code: 503, want: has(`"target_cluster_size":17`)},
		{who: "worker", do: check + "reached-target-cluster-size", code: 403},
		{who: "ghost", do: check + "reached-target-cluster-size", code: 401},
		{who: "ghost", do: "GET /api/auth", code: 200}, // there is nothing that credentials could change
	})
}
