package recovery

import (
	"testing"

	"github.com/quorate/quorate/catalog"
)

// A node whose catalog is older than that of another node that is left numbers its queues anew by the other's version. A
// report of a build that did not say its version changes nothing.
func TestRenumbersByNewestVersion(t *testing.T) {
	for name, x := range map[string]struct {
		own     catalog.Version
		reports []Report
		want    bool
	}{
		"alone":                        {own: catalog.VersionSealed, want: true},
		"alone, not finalised":         {own: catalog.VersionSealed - 1},
		"another knows more":           {own: catalog.VersionSealed - 1, reports: []Report{{}, {Version: catalog.VersionSealed}}, want: true},
		"another knows less":           {own: catalog.VersionSealed, reports: []Report{{Version: catalog.VersionFirst}}, want: true},
		"another does not say":         {own: catalog.VersionSealed, reports: []Report{{}}, want: true},
		"nobody knows it is finalised": {own: catalog.VersionSealed - 1, reports: []Report{{Version: catalog.VersionSealed - 1}}},
	} {
		c := catalog.New()
		if r := c.Apply(1, 1, &catalog.RaiseVersion{Version: x.own}); r.Err != nil {
			t.Fatal(r.Err)
		}
		r := Recovery{c: Config{Reports: x.reports}, view: c.View()}
		if got := len(r.renumbering()) > 0; got != x.want {
			t.Errorf("%s: renumbered %v, want %v", name, got, x.want)
		}
	}
}
