package browsertest

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/quorate/quorate/client"
)

// document writes a document of definitions into a file, with a queue that differs from what there is and a new one.
func document(t *testing.T, dir, queue string) string {
	t.Helper()
	file := filepath.Join(dir, queue+".json")
	text := `{"queues": [{"name": "orders", "vhost": "/", "durable": true, "arguments": {"x-queue-type": "quorum", "x-max-length": 9}},
		{"name": "` + queue + `", "vhost": "/", "durable": true, "arguments": {"x-queue-type": "quorum"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A document of definitions is uploaded and compared, which changes nothing. Only the one that was compared is applied,
// and what differs stays as it is.
func TestImport(t *testing.T) {
	s := serve(t)
	c := s.dial(t)
	declare(t, c, "orders")
	dir := t.TempDir()
	compared, another := document(t, dir, "compared"), document(t, dir, "another")
	upload := func(x *tab, file string) {
		x.call(chromedp.SetUploadFiles(chromedp.CSS("#i-file"), []string{file}))
	}
	x := browse(t, s.base)
	x.login("guest", "guest")
	x.open("/ui/definitions")
	before := s.records("guest")
	x.found.expect(http.StatusBadRequest)
	x.click("button[value=compare]")
	x.await(`notice.innerText.includes("paste a document, or choose a file")`)
	x.found.expect()
	upload(x, compared)
	x.click("button[value=compare]")
	x.await(`document.querySelector("#h-diff").innerText === "What would be done"`)
	x.await(`[...document.querySelectorAll("#diff tbody tr")].map((r) => r.cells[0].innerText + " " + r.cells[2].innerText).sort().join() === "different orders,new compared"`)
	x.await(`document.querySelector("#diff").innerText.includes("arguments.x-max-length: is nothing, in the document 9")`)
	if now := s.records("guest"); len(now) != len(before) {
		t.Errorf("comparing has changed something: %q", now)
	}

	upload(x, another)
	x.found.expect(http.StatusBadRequest)
	x.click("button[value=apply]")
	x.await(`notice.innerText.includes("nothing was done: the document is not the one that was compared")`)
	x.found.expect()
	for _, name := range []string{"compared", "another"} {
		if err := noQueue(t.Context(), c, name); err != nil {
			t.Fatal(err)
		}
	}

	upload(x, compared)
	x.click("button[value=apply]")
	x.await(`document.querySelector("#h-diff").innerText === "What was done" && document.querySelector("#diff tbody").innerText.includes("made")`)
	q, err := c.GetQueue(t.Context(), client.QueueRef{Name: "compared"})
	if err != nil || q.Name != "compared" {
		t.Errorf("%+v, %v", q, err)
	}
	q, err = c.GetQueue(t.Context(), client.QueueRef{Name: "orders"})
	if err != nil || q.Arguments["x-max-length"] != nil {
		t.Errorf("the queue that differs has changed: %+v, %v", q, err)
	}
}
