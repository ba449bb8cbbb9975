package page

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
)

// action is a change that the page makes.
type action struct {
	path string
	// asks describes what the change will do, for changes that destroy something: the user sees it, and types the name,
	// before it is done. nil: it is done at once.
	asks func(v *visit) (question, error)
	does func(v *visit) (outcome, error)
	// stays keeps the form as it is, with the result above it, where a browser runs scripts: it will be sent again.
	stays bool
}

// question is what stands between a user and a change that destroys something.
type question struct {
	Title  string   // "Delete queue “orders”?"
	Lines  []string // what will happen, in sentences
	Plan   []string // what a dry run has found, line by line
	Name   string   // what the user must type
	Button string   // "Delete"
	Back   string   // where Cancel leads
	// Fields are sent along with the answer.
	Fields url.Values
}

// outcome is the result of a change.
type outcome struct {
	next string // the page to show
	said string // a sentence on it
}

// actions returns all actions.
func actions() []action {
	return slices.Concat(
		queueActions(), queuePartActions(), exchangeActions(), bindingActions(), policyActions(), vhostActions(), userActions(), permissionActions(), limitActions(),
		nodeActions(), operationActions(), connectionActions(),
	)
}

// errNotGenuine refuses a form that is not from this session's pages.
var errNotGenuine = &fault{
	Code: http.StatusForbidden, Kind: "not_authorized",
	Reason: "this form is of another session or too old; open the page again and repeat what you entered",
}

// serveQuestion shows what a change will do.
func (s *site) serveQuestion(x *action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := s.enter(w, r)
		if v == nil {
			return
		}
		q, err := x.asks(v)
		if err != nil {
			s.refuse(v, err)
			return
		}
		if q.Fields == nil {
			q.Fields = r.URL.Query()
		}
		q.Fields.Del("typed") // the user types it, not a link
		q.Fields.Del("form_token")
		s.render(w, v, http.StatusOK, "question.html", q.Title, q)
	}
}

// serveAction makes a change, then redirects to the page that shows it.
func (s *site) serveAction(x *action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, MaxFormBytes)
		v := s.enter(w, r)
		if v == nil {
			return
		}
		out, err := v.act(x)
		if err != nil {
			s.refuse(v, err)
			return
		}
		if x.stays && v.byScript() {
			s.say(w, out.said)
			return
		}
		if out.said != "" {
			v.leave(out.said)
		}
		if v.byScript() {
			w.Header().Set("HX-Redirect", out.next)
			w.WriteHeader(http.StatusNoContent)
			return
		}
		http.Redirect(w, r, out.next, http.StatusSeeOther)
	}
}

// say answers with a sentence, for the place of notices.
func (s *site) say(w http.ResponseWriter, said string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := s.pages().ExecuteTemplate(w, "said", said); err != nil {
		s.Logger.Debug("a sentence could not be sent", "error", err)
	}
}

// act does what an action does, if the form is genuine and the name that it asks for was typed.
func (v *visit) act(x *action) (outcome, error) {
	if err := v.ParseForm(); err != nil {
		if large, is := errors.AsType[*http.MaxBytesError](err); is {
			return outcome{}, &fault{Code: http.StatusRequestEntityTooLarge, Kind: "bad_request", Reason: "the form has more than " + byteSize(large.Limit) + ", which is its limit"}
		}
		return outcome{}, &fault{Code: http.StatusBadRequest, Kind: "bad_request", Reason: "the form cannot be read: " + err.Error()}
	}
	if !v.genuine() {
		return outcome{}, errNotGenuine
	}
	if x.asks != nil {
		q, err := x.asks(v)
		if err != nil {
			return outcome{}, err
		}
		if v.PostFormValue("typed") != q.Name {
			return outcome{}, &fault{Code: http.StatusBadRequest, Kind: "bad_request", Reason: "nothing was done: type " + q.Name + " exactly as it is shown"}
		}
	}
	return x.does(v)
}
