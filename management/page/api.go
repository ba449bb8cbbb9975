package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// fault is an error of the API.
type fault struct {
	Code   int
	Kind   string `json:"error"`
	Reason string `json:"reason"`
}

// Error is the API's reason, which names the thing, its value and the remedy.
func (f *fault) Error() string { return f.Reason }

// responseBuffer keeps an answer of the API in memory.
type responseBuffer struct {
	code   int
	header http.Header
	body   bytes.Buffer
}

func (a *responseBuffer) Header() http.Header { return a.header }

// WriteHeader takes the first code, as a server does.
func (a *responseBuffer) WriteHeader(code int) {
	if a.code == 0 {
		a.code = code
	}
}

func (a *responseBuffer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

// apiPath makes a path of the API from a pattern with %s for each name. A name of dots is escaped too: the API's mux would
// take it for a step in the path.
func apiPath(pattern string, names ...string) string {
	escaped := make([]any, len(names))
	for i, n := range names {
		if escaped[i] = url.PathEscape(n); n == "." || n == ".." {
			escaped[i] = strings.ReplaceAll(n, ".", "%2E")
		}
	}
	return fmt.Sprintf(pattern, escaped...)
}

// request makes a request to the API as the user of a session; token "": without a login.
func request(ctx context.Context, like *http.Request, token, method, path string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, path, body) //nolint:gosec // it never leaves this process
	if err != nil {
		return nil, &fault{Code: http.StatusBadRequest, Kind: "bad_request", Reason: "the address " + path + " cannot be asked for: " + err.Error()}
	}
	r.RemoteAddr, r.Host, r.TLS = like.RemoteAddr, like.Host, like.TLS
	r.Header.Set("User-Agent", like.UserAgent())
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r, nil
}

// exchange sends a request to the API as this visitor. It returns a *fault if the API refuses, together with the answer.
func (v *visit) exchange(method, path string, header http.Header, body io.Reader) (*responseBuffer, error) {
	r, err := request(v.Context(), v.Request, v.token, method, path, body)
	if err != nil {
		return nil, err
	}
	for name := range header {
		r.Header.Set(name, header.Get(name))
	}
	a := &responseBuffer{header: http.Header{}}
	v.site.API.ServeHTTP(a, r)
	if a.code >= http.StatusMultipleChoices {
		return a, faultOf(a, path)
	}
	return a, nil
}

// call sends a request to the API and decodes the answer into out; nil: it is dropped. A body that is not nil is sent as
// JSON. It returns the nodes that did not answer, and a *fault if the API refuses.
func (v *visit) call(method, path string, body, out any) (silent []string, err error) {
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, &fault{Code: http.StatusBadRequest, Kind: "bad_request", Reason: "what was entered cannot be sent: " + err.Error()}
		}
		in = bytes.NewReader(b)
	}
	a, err := v.exchange(method, path, nil, in)
	if err != nil {
		return nil, err
	}
	if nodes := a.header.Get("Quorate-Silent"); nodes != "" {
		silent = strings.Split(nodes, ",")
	}
	if out == nil || a.body.Len() == 0 {
		return silent, nil
	}
	d := json.NewDecoder(&a.body)
	d.UseNumber() // arguments are shown, and sent again, as exact as they are
	if err := d.Decode(out); err != nil {
		return silent, fmt.Errorf("page: the API's answer to %s %s: %w", method, path, err)
	}
	return silent, nil
}

// noRoute is the kind of the API's errors where there is no path, or none with the method.
const noRoute = "no_route"

// faultOf reads an answer that is an error.
func faultOf(a *responseBuffer, path string) *fault {
	f := &fault{Code: a.code}
	err := json.Unmarshal(a.body.Bytes(), f)
	nowhere := a.code < http.StatusBadRequest || f.Kind == noRoute
	switch {
	case nowhere: // a path with an empty part leads elsewhere
		f.Code, f.Kind, f.Reason = http.StatusNotFound, "Object Not Found", "the name of a thing, or of its virtual host, is missing"
	case err != nil || f.Reason == "":
		f.Kind, f.Reason = http.StatusText(a.code), fmt.Sprintf("%s was answered with %d %s", path, a.code, http.StatusText(a.code))
	}
	return f
}
