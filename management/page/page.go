// Package page serves the web page of a node: server-rendered HTML over the HTTP API. Every figure that it shows and
// every change that it makes is a request to that API in the same process, as the user whose browser asks. So rights,
// audit, limits and errors are the API's, and whatever the page can do, a script can do.
//
// # Reading order
//
//   - One request: api.go, session.go, visit.go, rights.go, format.go, render.go.
//   - What the site has: action.go, view.go, page.go; then a file for each group of pages.
package page

import (
	"html/template"
	"log/slog"
	"net/http"
	"sync"

	"github.com/quorate/quorate/management/login"
	"github.com/quorate/quorate/management/slot"
)

// Config describes the page.
type Config struct {
	API           http.Handler   // required: serves /api/ and /v1/
	Guard         *login.Guard   // required
	Logger        *slog.Logger   // required
	ExchangeTypes []ExchangeType // required
}

// ExchangeType is a type of exchange that can be declared.
type ExchangeType struct {
	Name   string
	Routes string // where a message goes, for people
}

// site has the handlers, which may run concurrently.
type site struct {
	Config
	pages     func() *template.Template // parses them when the first page is shown: most nodes show none
	assets    assets
	documents chan struct{} // has an element for each document of definitions in memory
}

// New returns the handler of / and /ui/. It may be used concurrently.
func New(c Config) http.Handler {
	s := &site{Config: c, assets: newAssets(), documents: make(chan struct{}, maxDocuments)}
	s.pages = sync.OnceValue(func() *template.Template { return parsePages(s.assets) })
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", http.RedirectHandler("/ui/", http.StatusFound))
	mux.Handle("GET /ui/static/", s.assets.handler())
	mux.HandleFunc("GET /ui/login", s.showLogin)
	mux.HandleFunc("POST /ui/login", s.logIn)
	mux.HandleFunc("POST /ui/logout", s.logOut)
	for _, x := range views() {
		mux.HandleFunc("GET "+x.path, keeping(s.serveView(&x)))
	}
	for _, x := range actions() {
		if x.asks != nil {
			mux.HandleFunc("GET "+x.path, keeping(s.serveQuestion(&x)))
		}
		mux.HandleFunc("POST "+x.path, keeping(s.serveAction(&x)))
	}
	for _, x := range streams() {
		mux.HandleFunc("GET "+x.path, s.serveStream(&x))
	}
	mux.HandleFunc("GET /ui/definitions/export", s.exportDefinitions)
	mux.HandleFunc("POST "+importPath, s.importDefinitions)
	return protect(mux)
}

// keeping makes a page keep the slot that the API takes for its messages until the page is written: it has them in
// memory.
func keeping(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, end := slot.Keep(r.Context())
		defer end()
		next(w, r.WithContext(ctx))
	}
}

// MaxFormBytes bounds a form, except one with definitions.
const MaxFormBytes = 2 << 20

// protect keeps browsers from running or showing anything that is not the page's own. What is only asked for has no
// body: a form of an unauthenticated client would be read into memory, and into files.
func protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "+
			"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			r.Body = http.NoBody
		}
		next.ServeHTTP(w, r)
	})
}

// Addresses returns the patterns of all pages, with those that ask before something is done, for tests that open each.
func Addresses() (all []string) {
	for _, x := range views() {
		all = append(all, x.path)
	}
	for _, x := range actions() {
		if x.asks != nil {
			all = append(all, x.path)
		}
	}
	return all
}

// Actions returns the paths of all forms that change something, for tests that send each.
func Actions() (all []string) {
	for _, x := range actions() {
		all = append(all, x.path)
	}
	return append(all, importPath)
}
