package browsertest

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/quorate/quorate/client"
)

// Every page of the menu is reached by keys, and so are the search and Escape; in a field they are text.
func TestKeys(t *testing.T) {
	s := serve(t)
	declare(t, s.dial(t), "orders", "bills")
	x := browse(t, s.base)
	x.login("guest", "guest")
	x.keys("gq")
	x.await(`location.pathname === "/ui/queues" && document.readyState === "complete"`)
	x.keys("go")
	x.await(`location.pathname === "/ui/" && document.readyState === "complete"`)
	x.keys("/")
	x.await(`document.activeElement.id === "find"`)
	x.keys("gqord.")
	x.await(`document.querySelector("#find").value === "gqord." && live.getAttribute("aria-pressed") === "true"`)
	x.fill("#find", "ord")
	x.keys(kb.Enter)
	x.await(`location.pathname === "/ui/queues" && document.readyState === "complete"`)
	x.lists("orders")
	x.keys("/")
	x.keys(kb.Escape)
	x.await(`document.activeElement === document.body`)
}

// The messages of a queue are looked at again by a key: they do not refresh by themselves.
func TestLookAgain(t *testing.T) {
	s := serve(t)
	c := s.dial(t)
	declare(t, c, "orders")
	x := browse(t, s.base)
	x.login("guest", "guest")
	x.open(aboutQueue("/ui/queue/messages", "orders"))
	x.await(`document.querySelector("#list").innerText.includes("0 messages shown")`)
	publish(t, c, 3, client.Message{RoutingKey: "orders"})
	x.keys("r")
	x.await(`document.querySelector("#list").innerText.includes("3 messages shown")`)
}

// The skip link is the first that Tab reaches, and leads past the menu.
func TestSkip(t *testing.T) {
	s := serve(t)
	x := browse(t, s.base)
	x.login("guest", "guest")
	x.open("/ui/queues")
	x.keys(kb.Tab)
	x.await(`document.activeElement.className === "skip"`)
	x.keys(kb.Enter)
	x.await(`location.hash === "#main"`)
	x.keys(kb.Tab)
	x.await(`document.activeElement.closest("main")`)
}

// A theme that was chosen stays, in place of what the browser prefers.
func TestTheme(t *testing.T) {
	s := serve(t)
	x := browse(t, s.base)
	x.prefer("light")
	x.login("guest", "guest")
	const ground = `getComputedStyle(document.body).backgroundColor`
	light := ask[string](x, ground)
	x.click("#theme")
	x.await(ground + ` !== ` + quote(light))
	x.call(chromedp.Reload())
	x.await(ground + ` !== ` + quote(light) + ` && document.documentElement.dataset.theme === "dark"`)
	x.open("/ui/queues")
	x.await(`document.documentElement.dataset.theme === "dark"`)
	x.click("#theme")
	x.await(ground + ` === ` + quote(light))
	x.prefer("dark")
	x.call(chromedp.Reload())
	x.await(ground + ` === ` + quote(light))
}
