package page

import (
	"net/http"
	"slices"
)

// view is a page.
type view struct {
	path  string
	file  string // of the template
	title string
	load  func(v *visit) (any, error) // what the template shows
}

// views returns all pages.
func views() []view {
	return slices.Concat(
		overviewViews(), queueViews(), queuePartViews(), exchangeViews(), policyViews(), vhostViews(), userViews(),
		nodeViews(), operationViews(), connectionViews(), channelViews(), eventViews(), definitionViews(),
	)
}

// enter begins a visit of somebody who has logged in, or answers with the way to do so.
func (s *site) enter(w http.ResponseWriter, r *http.Request) *visit {
	token, _ := sessionOf(r)
	v := &visit{Request: r, site: s, w: w, token: token}
	if err := v.identify(); err != nil {
		s.refuse(v, err)
		return nil
	}
	return v
}

// serveView serves a page.
func (s *site) serveView(x *view) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := s.enter(w, r)
		if v == nil {
			return
		}
		data, err := x.load(v)
		if err != nil {
			s.refuse(v, err)
			return
		}
		s.render(w, v, http.StatusOK, x.file, x.title, data)
	}
}

// feed is a stream of the API that the page's scripts read, with the session in place of a header, which browsers cannot
// send for streams.
type feed struct{ path, api string }

// streams returns all feeds.
func streams() []feed {
	return []feed{
		{"/ui/feed/live", "/v1/live"}, {"/ui/feed/events", "/v1/events"}, {"/ui/feed/log", "/v1/log"},
	}
}

// serveStream hands the request over to the API, which writes to the browser itself.
func (s *site) serveStream(x *feed) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		to := x.api
		if r.URL.RawQuery != "" {
			to += "?" + r.URL.RawQuery
		}
		token, _ := sessionOf(r)
		in, err := request(r.Context(), r, token, http.MethodGet, to, nil)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if last := r.Header.Get("Last-Event-ID"); last != "" {
			in.Header.Set("Last-Event-ID", last)
		}
		s.API.ServeHTTP(unasked{w}, in)
	}
}

// unasked passes an answer on without the question for a password, for which a browser would open a window of its own.
type unasked struct{ http.ResponseWriter }

// WriteHeader removes the question.
func (w unasked) WriteHeader(code int) {
	w.Header().Del("WWW-Authenticate")
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap is for http.ResponseController.
func (w unasked) Unwrap() http.ResponseWriter { return w.ResponseWriter }
