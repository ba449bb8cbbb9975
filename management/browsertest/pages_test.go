package browsertest

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/quorate/quorate/management/page"
)

// walk finds pages by their links.
type walk struct {
	*tab
	// next are links that were found and not followed, seen the addresses that were found.
	next []link
	seen map[string]bool
	// key is what makes two addresses one for this walk.
	key func(address *url.URL) string
}

// link is an address, and the page that leads there; "": the test has named it.
type link struct{ address, from string }

// mayPass are codes of answers that may be others when the page is opened again: what it is about may be gone, and a node
// that is busy may not answer another one in time.
func mayPass() []int64 {
	return []int64{http.StatusBadRequest, http.StatusNotFound, http.StatusServiceUnavailable}
}

// newWalk returns a walk that has found nothing. It opens pages again itself that are answered with such codes, so the
// browser need not complain about them.
func newWalk(x *tab, key func(*url.URL) string) *walk {
	x.found.expect(mayPass()...)
	return &walk{tab: x, seen: map[string]bool{}, key: key}
}

// add takes addresses that are not seen yet, and the page that leads there.
func (w *walk) add(from string, addresses ...string) {
	for _, a := range addresses {
		u, err := url.Parse(a)
		if err != nil {
			w.t.Errorf("a link leads to %q: %v", a, err)
			continue
		}
		if key := w.key(u); !w.seen[key] && isPage(u.Path) {
			w.seen[key] = true
			w.next = append(w.next, link{a, from})
		}
	}
}

// isPage reports whether a path is one of a page.
func isPage(path string) bool {
	return slices.ContainsFunc(page.Addresses(), func(p string) bool { return strings.TrimSuffix(p, "{$}") == path })
}

// links are the addresses of this site that the page leads to by links, and by forms that ask for another page. What is a
// file to be saved is no page, and the form of a list asks for nothing until rows are chosen.
func (x *tab) links() []string {
	return ask[[]string](x, `[
		...[...document.querySelectorAll("a[href]:not([download])")].map((a) => new URL(a.href)),
		...[...document.querySelectorAll("main form:not(#bulk)")].filter((f) => f.method === "get" && new URL(f.action).pathname !== location.pathname)
			.map((f) => new URL(new URL(f.action).pathname + "?" + new URLSearchParams(new FormData(f)), location)),
	].filter((u) => u.origin === location.origin && u.pathname.startsWith("/ui/")).map((u) => u.pathname + u.search)`)
}

// each opens every page that links lead to, and calls visit on it.
func (w *walk) each(visit func(to link)) {
	w.t.Helper()
	for len(w.next) > 0 {
		to := w.next[0]
		w.next = w.next[1:]
		if w.follow(to) {
			visit(to)
			w.add(to.address, w.links()...)
		}
	}
}

// follow opens the page that a link leads to, and reports whether it is there. What is refused is asked for again, as nodes
// that share few processors may take one another for dead for a moment. What a page leads to may be gone when the walk comes
// there, minutes later, such as a message that was handed to another consumer or a connection that a client has made
// again: then the page that led there does so no more.
func (w *walk) follow(to link) bool {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(pollEvery) {
		w.open(to.address)
		code := w.code()
		switch {
		case code < http.StatusBadRequest:
			return true
		case code == http.StatusNotFound && to.from != "" && !w.leads(to):
			w.t.Logf("%s is gone, and %s leads there no more", to.address, to.from)
			return false
		case !slices.Contains(mayPass(), code) || time.Now().After(deadline):
			w.open(to.address)
			w.fail("%s, to which %q leads, is answered with %d", to.address, to.from, code)
		}
	}
}

// leads reports whether the page that had a link has it still, or cannot say.
func (w *walk) leads(to link) bool {
	w.t.Helper()
	w.open(to.from)
	return w.code() == http.StatusServiceUnavailable || slices.Contains(w.links(), to.address)
}

// code is that with which the page in the tab was answered. Who is led to the login in its place has not logged in.
func (x *tab) code() int64 {
	x.t.Helper()
	return ask[int64](x, fmt.Sprintf(`location.pathname === "/ui/login" ? %d : performance.getEntriesByType("navigation")[0].responseStatus`, http.StatusUnauthorized))
}

// Every page is shown without a fault that axe-core or the browser finds, to those who prefer light and those who prefer
// dark, folded and unfolded.
func TestPages(t *testing.T) {
	s := serve(t)
	s.furnish(s.dial(t))
	for _, scheme := range []string{"light", "dark"} {
		t.Run(scheme, func(t *testing.T) {
			x := browse(t, s.base)
			x.prefer(scheme)
			x.open("/ui/login")
			x.judge("/ui/login")
			x.login("guest", "guest")
			w := newWalk(x, func(u *url.URL) string { return u.Path })
			w.add("", about()...)
			w.add("", "/ui/")
			w.each(func(to link) {
				w.judge(to.address)
				if w.unfold() {
					w.judge(to.address + " unfolded")
				}
			})
			for _, path := range page.Addresses() {
				if path = strings.TrimSuffix(path, "{$}"); !w.seen[path] && path != whileRunning {
					t.Errorf("no link leads to %s", path)
				}
			}
		})
	}
}

// judge reports the faults of a page.
func (x *tab) judge(address string) {
	x.t.Helper()
	for _, found := range x.judgeAccess() {
		x.t.Errorf("%s: %s", address, found)
	}
	if n := ask[int](x, `document.querySelectorAll(".fault").length`); n > 0 {
		x.t.Errorf("%s shows an error: %s", address, ask[string](x, `document.querySelector("main").innerText`))
	}
}

// whileRunning asks before an operation is cancelled. It is there while one runs; those of the test are too short for it.
const whileRunning = "/ui/operation/cancel"

// about are pages about what furnish has made, which have more to show than those that a list begins with, and pages that
// forms lead to.
func about() []string {
	return []string{
		"/ui/queue?vhost=%2F&name=orders", "/ui/exchange?vhost=%2F&name=shop", "/ui/user?name=watcher", "/ui/vhost?name=%2F",
		"/ui/queues/purge?queue=%252F%2Forders", "/ui/queues/delete?queue=%252F%2Forders",
		"/ui/queue/messages?vhost=%2F&name=orders", "/ui/queue/dead-letters?vhost=%2F&name=orders.dead",
		"/ui/queue/bindings?vhost=%2F&name=orders", "/ui/queue/consumers?vhost=%2F&name=orders",
		"/ui/queue/messages/move?vhost=%2F&name=orders&scope=all&target=empty",
	}
}

// wide names the elements that reach beyond a screen of a width, except for what scrolls by itself.
func (x *tab) wide(width int) []string {
	x.t.Helper()
	return ask[[]string](x, fmt.Sprintf(`document.documentElement.scrollWidth <= %d ? [] : [...document.querySelectorAll("main *")]
		.filter((e) => e.getBoundingClientRect().right > %d && !e.closest(".scroll, pre")).map((e) => e.outerHTML.slice(0, 120))`, width, width))
}

// The pages work on a narrow screen: nothing but tables, which scroll by themselves, is wider than it.
func TestNarrow(t *testing.T) {
	s := serve(t)
	s.furnish(s.dial(t))
	x := browse(t, s.base)
	x.call(chromedp.EmulateViewport(390, 800))
	x.login("guest", "guest")
	w := newWalk(x, func(u *url.URL) string { return u.Path })
	w.add("", about()...)
	w.add("", "/ui/")
	w.each(func(to link) {
		if wide := x.wide(390); len(wide) > 0 {
			t.Errorf("%s is wider than a screen of 390 pixels: %q", to.address, wide)
		}
	})
}
