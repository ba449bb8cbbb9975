package browsertest

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
)

// A wrong password is said in place; a login leads to the page that was asked for, and a logout ends it for other tabs too.
func TestLogin(t *testing.T) {
	s := serve(t)
	declare(t, s.dial(t), "orders")
	x := browse(t, s.base)
	const queue = "/ui/queue?vhost=%2F&name=orders"
	x.open(queue)
	x.await(`location.pathname === "/ui/login"`)
	x.found.expect(http.StatusUnauthorized)
	x.fill("#user", "guest")
	x.fill("#password", "wrong")
	x.click("button.main")
	x.await(`document.querySelector("[role=alert]") && user.value === "guest" && password.value === ""`)
	x.found.expect()
	x.fill("#password", "guest")
	x.click("button.main")
	x.await(`location.pathname + location.search === "` + queue + `"`)
	if cookies := ask[string](x, `document.cookie`); cookies != "" {
		t.Errorf("scripts see the cookies %q", cookies)
	}
	x.click("form[action='/ui/logout'] button")
	x.await(`location.pathname === "/ui/login"`)
	x.open("/ui/queues")
	x.await(`location.pathname === "/ui/login" && location.search === "?next=%2Fui%2Fqueues"`)
}

// Somebody whose session has ended while a page was open is led to the login by the next refresh.
func TestSessionEnds(t *testing.T) {
	s := serve(t)
	x := browse(t, s.base)
	x.login("guest", "guest")
	x.open("/ui/queues")
	x.click("#live") // the refresh is the test's
	x.call(chromedp.Evaluate[chromedp.Void](`fetch("/ui/logout", {method: "POST", redirect: "manual", headers: {"X-Form-Token": document.querySelector("[name=form_token]").value}})`, chromedp.EvalAwaitPromise))
	x.call(chromedp.Evaluate[chromedp.Void](`document.body.dispatchEvent(new CustomEvent("refresh"))`))
	x.await(`location.pathname === "/ui/login" && new URLSearchParams(location.search).get("next") === "/ui/queues"`)
}

// What the API would refuse is not offered.
func TestRoles(t *testing.T) {
	s := serve(t)
	s.addUser("manager", "management")
	s.addUser("watcher", "monitoring")
	for user, want := range map[string]map[string]bool{
		"manager": {"nodes": false, "users": false, "queues": true},
		"watcher": {"nodes": true, "users": false, "queues": true},
	} {
		t.Run(user, func(t *testing.T) {
			x := browse(t, s.base)
			x.login(user, "p")
			for menu, there := range want {
				if got := ask[bool](x, `document.querySelector("nav.menu a[href='/ui/`+menu+`']") !== null`); got != there {
					t.Errorf("%s is in the menu: %t", menu, got)
				}
			}
		})
	}
}
