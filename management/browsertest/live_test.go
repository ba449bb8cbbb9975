package browsertest

import (
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// tile is the figure under a tile's name.
func tile(says string) string {
	return `[...document.querySelectorAll(".tile")].find((x) => x.querySelector(".says").innerText === ` + quote(says) + `).querySelector(".value").innerText`
}

// readyOf is how many messages of a queue are ready, in the list of queues.
func readyOf(queue string) string {
	return `[...document.querySelectorAll("#list tbody tr")].find((x) => x.innerText.includes(` + quote(queue) + `))?.cells[5].innerText`
}

// Figures follow what happens, without a reload: the overview's and those of its nodes by its feed, those of
// queues by refreshes.
func TestFiguresFollow(t *testing.T) {
	s := serve(t)
	c := s.dial(t)
	declare(t, c, "orders")
	over, one, list := browse(t, s.base), browse(t, s.base), browse(t, s.base)
	for _, x := range []*tab{over, one, list} {
		x.login("guest", "guest")
		x.call(chromedp.Evaluate[chromedp.Void](`window.sameDocument = true`))
	}
	one.open("/ui/queue?vhost=%2F&name=orders")
	list.open("/ui/queues")
	one.await(tile("Ready") + ` === "0"`)
	list.await(readyOf("orders") + ` === "0"`)
	one.call(chromedp.Evaluate[chromedp.Void](`window.sameDocument = true`))
	list.call(chromedp.Evaluate[chromedp.Void](`window.sameDocument = true`))

	publish(t, c, 25, client.Message{RoutingKey: "orders"})
	over.await(tile("Ready") + ` === "25" && ` + tile("Published") + ` !== "–" && sameDocument`)
	over.await(`document.querySelectorAll(".chart canvas").length === 5 && document.querySelectorAll(".node").length === 3`)
	declare(t, c, "bills")
	over.await(`[...document.querySelectorAll(".node [data-of=members]")].map((x) => x.innerText).join() === "2,2,2" && sameDocument`)
	one.await(tile("Ready") + ` === "25" && sameDocument`)
	list.await(readyOf("orders") + ` === "25" && sameDocument`)
}

// handTimers makes a page's timers the test's, in what is opened from now on, and counts its refreshes.
const handTimers = `
	window.ticks = [];
	window.refreshes = 0;
	window.setInterval = (tick) => ticks.push(tick);
	document.addEventListener("refresh", () => refreshes++, true);
`

// tick has the page's timers go off, and returns how many refreshes there were by it.
func (x *tab) tick() int {
	x.t.Helper()
	return ask[int](x, `(() => { const before = refreshes; ticks.forEach((f) => f()); return refreshes - before; })()`)
}

// Live off stops the refreshes, on every page and after a reload, and on begins them again. While queues are chosen, the
// list stays as it is.
func TestLive(t *testing.T) {
	s := serve(t)
	declare(t, s.dial(t), "orders")
	x := browse(t, s.base)
	x.login("guest", "guest")
	x.call(command(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: handTimers}))
	x.open("/ui/queues")
	before := s.asks("/ui/queues")
	if n := x.tick(); n != 1 {
		t.Errorf("%d refreshes with Live on", n)
	}
	testcluster.Poll(t, "the page asks the server", func() error {
		if s.asks("/ui/queues") != before+1 {
			return errors.New("it has not")
		}
		return nil
	})
	x.click("#live")
	x.await(`live.getAttribute("aria-pressed") === "false"`)
	if n := x.tick(); n != 0 {
		t.Errorf("%d refreshes with Live off", n)
	}
	x.call(chromedp.Reload())
	x.await(`document.readyState === "complete"`)
	if n := x.tick(); n != 0 {
		t.Errorf("%d refreshes with Live off, after a reload", n)
	}
	x.keys(".")
	x.await(`live.getAttribute("aria-pressed") === "true"`)
	x.click("#list tbody input")
	if n := x.tick(); n != 0 {
		t.Errorf("%d refreshes while a queue is chosen", n)
	}
	x.click("#list tbody input")
	if n := x.tick(); n != 1 {
		t.Errorf("%d refreshes with Live on again", n)
	}
}

// A page that is left while the answer to a refresh has not come, or not all of it, complains about nothing.
func TestLeave(t *testing.T) {
	s := serve(t)
	declare(t, s.dial(t), "orders")
	x := browse(t, s.base)
	x.login("guest", "guest")
	x.open("/ui/queues")
	x.click("#live") // the refreshes are the test's
	asked := make(chan struct{}, 1)
	for _, begins := range []bool{false, true} {
		s.answerRefreshes(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			if begins {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				if _, err := w.Write([]byte("<!doctype html><main>")); err != nil {
					t.Error(err)
				}
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
			}
			asked <- struct{}{}
			<-r.Context().Done() // until the browser has gone
		})
		for range 10 {
			x.open("/ui/queues")
			x.beginRefresh()
			select {
			case <-asked:
			case <-time.After(patience):
				x.fail("the page did not refresh")
			}
			x.open("/ui/exchanges")
		}
	}
	// Whatever the browser has complained about fails the test at its end.
}

// beginRefresh has the page ask anew for what is live, and waits for no answer.
func (x *tab) beginRefresh() {
	x.t.Helper()
	x.call(chromedp.Evaluate[chromedp.Void](`document.body.dispatchEvent(new CustomEvent("refresh"))`))
}

// A refresh that is under way when a user filters a list does not bring back the list without the filter, which it would then
// refresh for good.
func TestFilterDuringRefresh(t *testing.T) {
	s := serve(t)
	declare(t, s.dial(t), "apples", "pears")
	x := browse(t, s.base)
	x.login("guest", "guest")
	x.open("/ui/queues")
	x.lists("apples", "pears")
	x.click("#live") // the refreshes are the test's
	held, free := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.answerRefreshes(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
		if !r.URL.Query().Has("name") {
			once.Do(func() {
				close(held)
				select {
				case <-free:
				case <-r.Context().Done(): // the test has failed
				}
			})
		}
		site.ServeHTTP(w, r)
	})
	x.beginRefresh()
	select {
	case <-held:
	case <-time.After(patience):
		x.fail("the page did not refresh")
	}
	x.fill("#name", "pear")
	x.await(`new URLSearchParams(location.search).get("name") === "pear"`)
	x.lists("pears")
	x.call(chromedp.Evaluate[chromedp.Void](`document.addEventListener("htmx:finally:request", () => { window.ended = true })`))
	close(free)
	x.await(`window.ended`)
	x.lists("pears")
}
