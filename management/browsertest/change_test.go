package browsertest

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/quorate/quorate/client"
)

// unfold opens what is folded in the page, so that its forms can be filled, and reports whether there was anything.
func (x *tab) unfold() bool {
	x.t.Helper()
	return ask[bool](x, `(() => {
		const folded = [...document.querySelectorAll("main details:not([open])")];
		for (const d of folded) d.open = true;
		return folded.length > 0;
	})()`)
}

// An exchange is declared, and where its messages would go is explained while the key is typed.
func TestExplain(t *testing.T) {
	s := serve(t)
	c := s.dial(t)
	declare(t, c, "orders")
	x := browse(t, s.base)
	x.login("guest", "guest")
	x.open("/ui/exchanges")
	x.unfold()
	const form = `form[action='/ui/exchanges/declare'] `
	x.fill(form+`[name=name]`, "shop")
	x.call(chromedp.SetValue(chromedp.CSS(form+`[name=type]`), "topic"))
	x.click(form + `button.main`)
	x.await(`location.pathname === "/ui/exchange" && new URLSearchParams(location.search).get("name") === "shop"`)
	if err := c.Bind(t.Context(), client.Binding{Source: "shop", Destination: "orders", RoutingKey: "order.#"}); err != nil {
		t.Fatal(err)
	}
	x.open("/ui/exchange/explain?vhost=%2F&name=shop")
	x.fill("#a-key", "bill.new")
	x.await(`explained.innerText.includes("It would reach no queue")`)
	x.fill("#a-key", "order.new")
	x.await(`explained.innerText.includes("It would reach 1 queue") && explained.querySelector("th a").innerText === "orders"`)
}

// What a policy would change is shown while it is written, before it is saved.
func TestPolicyPreview(t *testing.T) {
	s := serve(t)
	c := s.dial(t)
	declare(t, c, "orders", "bills")
	x := browse(t, s.base)
	x.login("guest", "guest")
	x.open("/ui/policy/new")
	x.fill("#p-name", "bound")
	x.fill("#p-pattern", "^ord")
	x.fill("#p-definition", `{"max-length": 10}`)
	x.await(`preview.innerText.includes("orders") && preview.innerText.includes("max-length") && !preview.innerText.includes("bills")`)
	for p, err := range c.Policies(t.Context(), "/") {
		t.Errorf("before it was saved there is %+v, %v", p, err)
	}
	x.click(`button.main[form="policy"]`)
	x.await(`location.pathname !== "/ui/policy/new" && notice.querySelector(".notice")`)
	if all, err := client.Collect(c.Policies(t.Context(), "/")); err != nil || len(all) != 1 || all[0].Pattern != "^ord" {
		t.Errorf("%+v, %v", all, err)
	}
}
