package browsertest

import (
	"os"

	"github.com/chromedp/chromedp"
)

// rules are those of axe-core that hold: WCAG 2.1 A and AA, and what is good practice.
const rules = `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]`

// judgeAccess has axe-core judge the page, and returns what it finds, a line for each element.
func (x *tab) judgeAccess() []string {
	x.t.Helper()
	script, err := os.ReadFile(os.Getenv(axeEnv))
	if err != nil {
		x.t.Fatal(err)
	}
	// Evaluated through the debugger, which the page's policy for scripts does not reach.
	x.call(chromedp.Evaluate[chromedp.Void](string(script)))
	return ask[[]string](x, `axe.run(document, {runOnly: {type: "tag", values: `+rules+`}, resultTypes: ["violations"]}).then((r) =>
		r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + v.help + ": " + n.html.slice(0, 200) + " " + n.failureSummary.replaceAll("\n", " "))))`)
}
