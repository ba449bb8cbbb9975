package browsertest

import (
	"net/http"
	"testing"

	"github.com/quorate/quorate/client"
)

// A queue is declared by the form; what is wrong is said in place, and the form keeps what was entered.
func TestDeclare(t *testing.T) {
	s := serve(t)
	x := browse(t, s.base)
	x.login("guest", "guest")
	x.open("/ui/queues")
	x.click("details.declare summary")
	x.fill("#d-name", "orders")
	x.found.expect(http.StatusBadRequest)
	for _, wrong := range []string{`{"x-delivery-limit": `, `{"x-delivery-limit": "many"}`, `[1]`} {
		x.fill("#d-arguments", wrong)
		before := ask[string](x, `notice.innerText`)
		x.click(".declare button")
		x.await(`notice.querySelector(".fault") && notice.innerText !== ` + quote(before))
		if kept := ask[[]string](x, `[document.querySelector("#d-name").value, document.querySelector("#d-arguments").value, location.pathname]`); kept[0] != "orders" || kept[1] != wrong || kept[2] != "/ui/queues" {
			t.Errorf("after an error the form has %q", kept)
		}
	}
	x.found.expect()
	x.fill("#d-arguments", `{"x-delivery-limit": 7}`)
	x.click(".declare button")
	x.await(`location.pathname === "/ui/queue" && notice.innerText === "The queue is declared." && document.querySelector(".facts").innerText.includes("x-delivery-limit: 7")`)
	q, err := s.dial(t).GetQueue(t.Context(), client.QueueRef{Name: "orders"})
	if err != nil || q.Arguments["x-delivery-limit"] != int64(7) {
		t.Errorf("%+v, %v", q, err)
	}
}

// A purge and a deletion are done when the name is typed, and not before.
func TestPurgeAndDelete(t *testing.T) {
	s := serve(t)
	c := s.dial(t)
	declare(t, c, "orders")
	publish(t, c, 3, client.Message{RoutingKey: "orders"})
	x := browse(t, s.base)
	x.login("guest", "guest")
	const queue = "/ui/queue?vhost=%2F&name=orders"
	for _, act := range []struct{ link, says, at, then string }{
		{"/ui/queue/purge", "3 ready messages", "/ui/queue", "The queue is purged."},
		{"/ui/queue/delete", "0 messages", "/ui/queues", "Queue orders is deleted."},
	} {
		x.open(queue)
		x.click(`main a[href^="` + act.link + `"]`)
		x.await(`location.pathname === "` + act.link + `" && document.querySelector(".effects").innerText.includes("` + act.says + `")`)
		x.found.expect(http.StatusBadRequest)
		x.fill("#typed", "Orders")
		x.click("form.question button")
		x.await(`notice.innerText.startsWith("nothing was done") && typed.value === "Orders" && location.pathname === "` + act.link + `"`)
		x.found.expect()
		x.fill("#typed", "orders")
		x.click("form.question button")
		x.await(`location.pathname === "` + act.at + `" && notice.innerText === "` + act.then + `"`)
	}
	if _, err := c.GetQueue(t.Context(), client.QueueRef{Name: "orders"}); client.ClassOf(err) != client.NotFound {
		t.Errorf("the deleted queue: %v", err)
	}
}

// Several queues are chosen in the list and deleted at once. While some are chosen, the list stays as it is.
func TestChosen(t *testing.T) {
	s := serve(t)
	c := s.dial(t)
	declare(t, c, "a", "b", "c")
	x := browse(t, s.base)
	x.login("guest", "guest")
	x.open("/ui/queues")
	x.click(`input[value="%2F/a"]`)
	x.click(`input[value="%2F/c"]`)
	x.click(`button[value=delete]`)
	x.await(`location.pathname === "/ui/queues/delete" && document.querySelectorAll(".effects li").length === 2`)
	x.fill("#typed", "2")
	x.click("form.question button")
	x.await(`location.pathname === "/ui/queues" && notice.innerText === "Deleted 2 queues."`)
	if names := ask[[]string](x, names); len(names) != 1 || names[0] != "b" {
		t.Errorf("the queues %q are left", names)
	}
}
