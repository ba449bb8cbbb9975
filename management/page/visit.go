package page

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// visit is one request for a page or an action.
type visit struct {
	*http.Request
	site  *site
	w     http.ResponseWriter
	token string // of the session
	who   who
	// silent are the nodes that did not answer what this visit asked for.
	silent []string
	rights map[[3]string]rights // that To has asked for
}

// who is the user of a session.
type who struct {
	Name string   `json:"name"`
	Tags []string `json:"tags"`
}

// identify finds out who the session belongs to, and that this user may see the page.
func (v *visit) identify() error {
	_, err := v.call(http.MethodGet, "/api/whoami", nil, &v.who)
	return err
}

// get asks the API for what is at a path; names are the parts of the path that %s stands for.
func (v *visit) get(out any, path string, names ...string) error {
	silent, err := v.call(http.MethodGet, apiPath(path, names...), nil, out)
	v.silent = append(v.silent, silent...)
	return err
}

// list is get with a query.
func (v *visit) list(out any, query url.Values, path string, names ...string) error {
	silent, err := v.call(http.MethodGet, apiPath(path, names...)+"?"+query.Encode(), nil, out)
	v.silent = append(v.silent, silent...)
	return err
}

// change sends a change to the API. body is sent as JSON, out takes the answer; each may be nil.
func (v *visit) change(method string, body, out any, path string, names ...string) error {
	_, err := v.call(method, apiPath(path, names...), body, out)
	return err
}

// Can reports whether the user has a tag, or one that includes it. It only decides what is shown: the API decides what
// is done.
func (v *visit) Can(tag string) bool {
	if !v.site.Guard.Asks() {
		return true
	}
	includes := map[string][]string{
		"management": {"management", "policymaker", "monitoring", "administrator"}, "policymaker": {"policymaker", "administrator"},
		"monitoring": {"monitoring", "administrator"}, "administrator": {"administrator"},
	}
	return slices.ContainsFunc(v.who.Tags, func(have string) bool { return slices.Contains(includes[tag], have) })
}

// missing reports whether the API has answered that something is not there.
func missing(err error) bool {
	f, is := errors.AsType[*fault](err)
	return is && f.Code == http.StatusNotFound
}

// wrong reports whether the API has refused what was entered.
func wrong(err error) bool {
	f, is := errors.AsType[*fault](err)
	return is && f.Code == http.StatusBadRequest
}

// unavailable reports whether the API cannot say now.
func unavailable(err error) bool {
	f, is := errors.AsType[*fault](err)
	return is && f.Code == http.StatusServiceUnavailable
}

// refused reports whether the API does not allow something to this user.
func refused(err error) bool {
	f, is := errors.AsType[*fault](err)
	return is && f.Code == http.StatusForbidden
}

// byScript reports whether the page's script asks, which takes a part of the answer.
func (v *visit) byScript() bool { return v.Header.Get("HX-Request") == "true" }

// noticeCookie carries a sentence to the next page that is shown.
const noticeCookie = "quorate_notice"

// noticeTime is how long a notice waits for the next page.
const noticeTime = time.Minute

// leave makes the next page show a notice.
func (v *visit) leave(notice string) {
	setCookie(v.w, v.Request, noticeCookie, base64.RawURLEncoding.EncodeToString([]byte(notice)), noticeTime)
}

// takeNotice returns what was left for this page. A request of a script takes none: it shows a part of a page alone, and
// the refresh of a page that is about to be left would take what was left for the next one.
func (v *visit) takeNotice() string {
	c, err := v.Cookie(noticeCookie)
	if err != nil || v.byScript() {
		return ""
	}
	b, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil {
		return ""
	}
	setCookie(v.w, v.Request, noticeCookie, "", 0)
	return string(b)
}
