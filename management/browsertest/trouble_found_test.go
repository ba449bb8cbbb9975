package browsertest

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// troubled is a page with a fault of each kind that the tests of this package have to see.
const troubled = `<!doctype html><html lang="en"><head><title>Faults</title><link rel="icon" href="data:,"><script src="/faults.js"></script></head>
<body><main><h1>Faults</h1><p style="color: red">inline</p><input></main></body></html>`

const faults = `
console.error("said on the console");
fetch("/missing");
fetch("http://127.0.0.1:1/elsewhere").catch(() => {});
new Image().src = "/picture";
setTimeout(() => { throw new Error("thrown by a script"); });
`

// What the other tests rely on: whatever the browser complains about is found, and so is what axe-core finds.
func TestTroublesAreFound(t *testing.T) {
	needBrowser(t)
	t.Parallel()
	mux := http.NewServeMux()
	serveText := func(path, kind, text string) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Content-Security-Policy", "default-src 'self'; img-src data:")
			if _, err := w.Write([]byte(text)); err != nil {
				t.Log(err)
			}
		})
	}
	serveText("/{$}", "text/html; charset=utf-8", troubled)
	serveText("/faults.js", "text/javascript", faults)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	x := browse(t, server.URL)
	x.open("/")
	// Only now: a page with an open dialog is never loaded.
	x.call(chromedp.Evaluate[chromedp.Void](`setTimeout(() => alert("opened by a script")) && undefined`))
	wanted := []string{
		"said on the console", "/missing was answered with 404", "connect-src", "img-src", "style-src", "thrown by a script", "a dialog opened: opened by a script",
	}
	x.found.awaits(t, wanted)
	x.call(command(page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true}))
	if found := x.judgeAccess(); !slices.ContainsFunc(found, func(s string) bool { return strings.HasPrefix(s, "label: ") }) {
		t.Errorf("axe-core has not found that a field has no label: %q", found)
	}
	x.call(chromedp.Navigate("about:blank"))
	x.found.forget()
}
