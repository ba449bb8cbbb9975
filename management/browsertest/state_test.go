package browsertest

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
)

// accessible reports what axe-core finds in the page as it is now.
func (x *tab) accessible(as string) {
	x.t.Helper()
	for _, found := range x.judgeAccess() {
		x.t.Errorf("%s: %s", as, found)
	}
}

// Pages are accessible also after something was entered in them.
func TestStates(t *testing.T) {
	s := serve(t)
	c := s.dial(t)
	declare(t, c, "orders")
	file := document(t, t.TempDir(), "compared")
	x := browse(t, s.base)
	x.login("guest", "guest")

	x.open("/ui/queues")
	x.click("details.declare summary")
	x.fill("#d-name", "other")
	x.fill("#d-arguments", "[1]")
	x.found.expect(http.StatusBadRequest)
	x.click(".declare button")
	x.await(`notice.querySelector(".fault")`)
	x.accessible("a fault in a form")

	x.open(aboutQueue("/ui/queue/delete", "orders"))
	x.fill("#typed", "other")
	x.click("form.question .danger")
	x.await(`notice.innerText.startsWith("nothing was done")`)
	x.accessible("a wrong name")
	x.found.expect()

	x.open("/ui/policy/new")
	x.fill("#p-name", "bound")
	x.fill("#p-pattern", "^ord")
	x.fill("#p-definition", `{"max-length": 10}`)
	x.await(`preview.innerText.includes("orders")`)
	x.accessible("a policy's preview")

	x.open("/ui/definitions")
	x.call(chromedp.SetUploadFiles(chromedp.CSS("#i-file"), []string{file}))
	x.click("button[value=compare]")
	x.await(`document.querySelectorAll("#diff tbody tr").length === 2`)
	x.accessible("a comparison before an import")
}
