package page

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/management/login"
)

// MaxLoginBytes bounds the forms of those who have not logged in, or are about to log out.
const MaxLoginBytes = 16 << 10

// maxSessionBytes bounds the token of a session: browsers drop larger cookies without a word.
const maxSessionBytes = 3800

// sessionCookie holds the token of a login. Any node takes it.
const sessionCookie = "quorate_session"

// mintedHere begins the cookie of a session whose token the page has minted, and may therefore revoke. A token that was
// pasted belongs to the user, who may need it elsewhere.
const mintedHere = "page."

// sessionOf returns the token of a request's session, or "", and whether the page has minted it.
func sessionOf(r *http.Request) (token string, minted bool) {
	c, err := r.Cookie(sessionCookie)
	if err != nil {
		return "", false
	}
	return strings.CutPrefix(c.Value, mintedHere)
}

// setCookie sets a cookie that only this site sees, and no script; an empty value removes it.
func setCookie(w http.ResponseWriter, r *http.Request, name, value string, lasts time.Duration) {
	c := &http.Cookie{Name: name, Value: value, Path: "/ui/", MaxAge: int(lasts.Seconds()), HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode} //nolint:gosec // without TLS browsers would not send a secure one
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// formToken is what each form of a session carries, so that only the session's own pages can send it.
func formToken(session string) string {
	mac := hmac.New(sha256.New, []byte(session))
	mac.Write([]byte("form"))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// genuine reports whether a form comes from a page of the same session. Without logins there is no session, and the
// headers that browsers send, which protect checks, have to do.
func (v *visit) genuine() bool {
	if v.token == "" {
		return !v.site.Guard.Asks()
	}
	sent := v.Header.Get("X-Form-Token")
	if sent == "" {
		sent = v.FormValue("form_token")
	}
	return subtle.ConstantTimeCompare([]byte(sent), []byte(formToken(v.token))) == 1
}

// loginForm is what the page for logins shows.
type loginForm struct{ Next, User, Error string }

// next is where a login leads: a page of this site only.
func next(r *http.Request) string {
	const home = "/ui/"
	u, err := url.Parse(r.FormValue("next"))
	switch {
	case err != nil, u.IsAbs(), u.Host != "", !strings.HasPrefix(u.Path, home), u.Path == "/ui/login":
		return home
	case strings.Contains(u.Path, `\`), path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/"): // browsers would read another host
		return home
	}
	return (&url.URL{Path: u.Path, RawQuery: u.RawQuery}).String()
}

func (s *site) showLogin(w http.ResponseWriter, r *http.Request) {
	if !s.Guard.Asks() {
		http.Redirect(w, r, "/ui/", http.StatusFound)
		return
	}
	s.render(w, s.outside(w, r), http.StatusOK, "login.html", "Log in", loginForm{Next: next(r)})
}

// outside is a visit of somebody who has not logged in.
func (s *site) outside(w http.ResponseWriter, r *http.Request) *visit {
	return &visit{Request: r, site: s, w: w}
}

// logIn takes a user's password, or a token for users whom another system vouches for.
func (s *site) logIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, MaxLoginBytes)
	token, kept := r.PostFormValue("token"), ""
	var err error
	switch {
	case token == "":
		minted, failed := s.Guard.Begin(r, r.PostFormValue("user"), r.PostFormValue("password"))
		token, kept, err = minted.Text, mintedHere, failed
	case len(token) > maxSessionBytes:
		err = badForm("token", fmt.Sprintf("has %d bytes, and a browser keeps at most %d; use one with fewer claims", len(token), maxSessionBytes))
	}
	v := s.outside(w, r)
	if v.token = token; err == nil {
		err = v.identify()
	}
	if err != nil {
		if kept == mintedHere {
			s.endSession(v) // of a user who may log in, but not see the page
		}
		v.token = ""
		form := loginForm{Next: next(r), User: r.PostFormValue("user"), Error: err.Error()}
		s.render(w, v, http.StatusUnauthorized, "login.html", "Log in", form)
		return
	}
	if before, minted := sessionOf(r); minted { // its place is taken: users have a limited number of tokens
		s.endSession(&visit{Request: r, site: s, w: w, token: before})
	}
	setCookie(w, r, sessionCookie, kept+token, login.SessionTime)
	http.Redirect(w, r, next(r), http.StatusSeeOther)
}

// logOut ends the session. A token of the page is revoked, so that a copy of the cookie is of no use.
func (s *site) logOut(w http.ResponseWriter, r *http.Request) {
	token, minted := sessionOf(r)
	v := &visit{Request: r, site: s, w: w, token: token}
	r.Body = http.MaxBytesReader(w, r.Body, MaxLoginBytes)
	if !v.genuine() {
		s.refuse(v, errNotGenuine)
		return
	}
	setCookie(w, r, sessionCookie, "", 0)
	if minted {
		s.endSession(v)
	}
	http.Redirect(w, r, "/ui/login", http.StatusSeeOther)
}

// endSession revokes a token that the page has minted.
func (s *site) endSession(v *visit) {
	id, is := identity.TokenID(v.token)
	if !is {
		return
	}
	r, err := request(v.Context(), v.Request, v.token, http.MethodPost, "/ui/logout", nil)
	if err == nil {
		r, err = s.Guard.Header(r)
	}
	if err == nil {
		err = s.Guard.End(r, id)
	}
	if err != nil {
		s.Logger.Debug("a session's token could not be revoked", "error", err)
	}
}
