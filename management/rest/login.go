package rest

import (
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/management/login"
)

// loginRoutes begin and end sessions, so that programs need not send a password with each request.
func loginRoutes() []route {
	return []route{
		{method: "POST", path: "/api/login", open: true, always: true, serve: logIn, says: "begins a session; body: username and password, as a form or as JSON"},
		{method: "DELETE", path: "/api/login", always: true, serve: logOut, says: "ends the session whose token the request has logged in with"},
	}
}

// maxLoginBytes bounds the body of those who are about to log in.
const maxLoginBytes = 16 << 10

// logIn answers with a token that is sent as Bearer from then on. The guard counts and delays failed logins. Users who
// could do nothing here with a token get none.
func logIn(c *call) (reply, error) {
	user, password, err := c.credentials()
	if err != nil {
		return reply{}, err
	}
	in, err := c.api.Guard.Password(c.Request, user, password)
	if err != nil {
		return reply{}, err
	}
	if err := c.api.Broker.Logins.Require(in.Context(), management); err != nil {
		return reply{}, err
	}
	token, err := c.api.Guard.Mint(in)
	if err != nil {
		return reply{}, err
	}
	who := c.api.whoIs(in.Context())
	who["login_session_timeout"] = int(login.SessionTime.Minutes())
	c.w.Header().Set("Cache-Control", "no-store")
	return reply{body: object{"token": object{"type": "bearer", "value": token.Text, "expires_ms": token.ExpireMs}, "user": who}}, nil
}

// credentials reads a form, as RabbitMQ does, or a JSON object.
func (c *call) credentials() (user, password string, err error) {
	b, err := c.read(maxLoginBytes)
	if err != nil {
		return "", "", err
	}
	f := fields{}
	if kind, _, _ := mime.ParseMediaType(c.Header.Get("Content-Type")); kind == "application/x-www-form-urlencoded" {
		form, err := url.ParseQuery(string(b))
		if err != nil {
			return "", "", bad("body", "", "is not a form") // without the error, which quotes what may be a password
		}
		for name := range form {
			f[name] = form.Get(name)
		}
	} else if f, err = parse(b); err != nil {
		return "", "", bad("body", "", "is neither a form nor a JSON object")
	}
	user, err = f.word("username")
	if err == nil {
		password, err = f.word("password")
	}
	return user, password, err
}

// word is need for a value that no error may quote.
func (f fields) word(name string) (string, error) {
	text, is := f[name].(string)
	if !is {
		return "", bad(name, "", "is missing, or is no string")
	}
	return text, nil
}

// logOut revokes the token of the request. There is nothing to end for a password, or for a token of somebody else's.
func logOut(c *call) (reply, error) {
	_, token, _ := strings.Cut(c.Header.Get("Authorization"), " ")
	id, is := identity.TokenID(token)
	if !is {
		return reply{code: http.StatusNoContent}, nil
	}
	return reply{}, c.api.Guard.End(c.Request, id)
}
