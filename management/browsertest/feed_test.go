package browsertest

import (
	"io"
	"log/slog"
	"testing"
)

// Events and lines of the log come by themselves, as text whatever names they have. Pause and its key hold them, and let all
// that were held come.
func TestFeeds(t *testing.T) {
	s := serve(t)
	c := s.dial(t)
	x := browse(t, s.base)
	x.login("guest", "guest")
	log := slog.New(s.cluster.Lines(2).Handler(slog.NewTextHandler(io.Discard, nil))) //nolint:sloglint // DiscardHandler takes no lines at all; the lines are those of the node whose page it is
	for path, happens := range map[string]func(name string){
		"/ui/events": func(name string) { declare(t, c, name) },
		"/ui/log":    func(name string) { log.Warn(name, "name", name) }, //nolint:sloglint // lines with such messages are what is tried
	} {
		t.Run(path, func(t *testing.T) {
			x := x.in(t)
			x.open(path)
			x.await(`document.querySelector("#feed-state").innerText.startsWith("Live")`)
			for _, name := range hostile() {
				happens(name)
			}
			happens("seen")
			for _, text := range []string{"alert(1)", "alert(2)", "alert(3)", "alert(4)", "seen"} {
				x.await(rowsHave(text))
			}
			x.await(`document.querySelector("#feed-none").hidden`)
			x.judgeNames(path)
			x.judge(path + " with rows")

			x.click("#pause")
			x.holds("one", happens)
			x.keys(",")
			x.await(rowsHave("one") + ` && document.querySelector("#feed-state").innerText.startsWith("Live")`)
			x.keys(",")
			x.holds("two", happens)
			x.click("#pause")
			x.await(rowsHave("two"))
		})
	}
}

// rowsHave is whether the rows of a feed have a text.
func rowsHave(text string) string {
	return `document.querySelector("#feed tbody").innerText.includes(` + quote(text) + `)`
}

// holds checks that a feed which was held shows nothing of what happens, but counts it.
func (x *tab) holds(name string, happens func(name string)) {
	x.t.Helper()
	x.await(`document.querySelector("#pause").getAttribute("aria-pressed") === "true"`)
	rows := ask[int](x, `document.querySelectorAll("#feed tbody tr").length`)
	happens("held-" + name)
	x.await(`/^Paused; [1-9].* wait/.test(document.querySelector("#feed-state").innerText)`)
	if now := ask[int](x, `document.querySelectorAll("#feed tbody tr").length`); now != rows || ask[bool](x, rowsHave("held-"+name)) {
		x.t.Errorf("a feed that is held has %d rows, before %d", now, rows)
	}
}
