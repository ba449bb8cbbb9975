package page

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
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

// sessionOf returns the token of a request's session; "" if there is none.
func sessionOf(r *http.Request) string {
	c, err := r.Cookie(sessionCookie)
	if err != nil {
		return ""
	}
	return c.Value
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
	to := r.FormValue("next")
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(u.Path, "/ui/") || u.Path == "/ui/login" {
		return "/ui/"
	}
	return to
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
	token := r.PostFormValue("token")
	var err error
	switch {
	case token == "":
		minted, failed := s.Guard.Begin(r, r.PostFormValue("user"), r.PostFormValue("password"))
		token, err = minted.Text, failed
	case len(token) > maxSessionBytes:
		err = badForm("token", fmt.Sprintf("has %d bytes, and a browser keeps at most %d; use one with fewer claims", len(token), maxSessionBytes))
	}
	v := s.outside(w, r)
	if v.token = token; err == nil {
		err = v.identify()
	}
	if err != nil {
		s.endSession(v) // of a user who may log in, but not see the page
		v.token = ""
		form := loginForm{Next: next(r), User: r.PostFormValue("user"), Error: err.Error()}
		s.render(w, v, http.StatusUnauthorized, "login.html", "Log in", form)
		return
	}
	setCookie(w, r, sessionCookie, token, login.SessionTime)
	http.Redirect(w, r, next(r), http.StatusSeeOther) //nolint:gosec // next is a page of this site
}

// logOut ends the session's token, so that a copy of the cookie is of no use.
func (s *site) logOut(w http.ResponseWriter, r *http.Request) {
	v := &visit{Request: r, site: s, w: w, token: sessionOf(r)}
	r.Body = http.MaxBytesReader(w, r.Body, MaxLoginBytes)
	if !v.genuine() {
		s.refuse(v, errNotGenuine)
		return
	}
	setCookie(w, r, sessionCookie, "", 0)
	s.endSession(v)
	http.Redirect(w, r, "/ui/login", http.StatusSeeOther)
}

// endSession revokes a token that was minted here; others, such as JSON Web Tokens, end by themselves.
func (s *site) endSession(v *visit) {
	id, minted := identity.TokenID(v.token)
	if !minted {
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
