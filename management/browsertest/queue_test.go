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
