package run

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/chaos/check"
	"github.com/quorate/quorate/chaos/fault"
)

// limitRow is a row of the table of limits in docs/chaos.md.
type limitRow struct {
	classes, faults []string
	limit           string
}

// limitRows reads that table.
func limitRows(t *testing.T) (rows []limitRow) {
	t.Helper()
	b, err := os.ReadFile("../../docs/chaos.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(b), "| Class of fault | Faults | Limit |\n|---|---|---|\n")
	if !found {
		t.Fatal("docs/chaos.md has no table of limits")
	}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 {
			break
		}
		rows = append(rows, limitRow{
			strings.Split(strings.TrimSpace(cells[0]), ", "), strings.Split(strings.TrimSpace(cells[1]), ", "), strings.TrimSpace(cells[2]),
		})
	}
	return rows
}

// The page has the limit for each fault that is judged by one, and no other fault. For those that may leave a queue
// without a majority, which is judged by the time after the healing, it is in the text.
func TestLimitsAreDocumented(t *testing.T) {
	rows := limitRows(t)
	listed := 0
	for _, r := range rows {
		listed += len(r.faults)
	}
	limits := check.PauseLimits()
	for _, k := range fault.Kinds() {
		limit, judged := limits[k.Class]
		if !judged || limit == check.HealedLimit {
			continue
		}
		listed--
		i := slices.IndexFunc(rows, func(r limitRow) bool { return slices.Contains(r.faults, k.Name) })
		if i < 0 {
			t.Errorf("fault %s of class %q is in no row", k.Name, k.Class)
			continue
		}
		if want := fmt.Sprintf("%g s", limit.Seconds()); !slices.Contains(rows[i].classes, k.Class) || rows[i].limit != want {
			t.Errorf("fault %s of class %q, limit %s, is in the row of %q, %s", k.Name, k.Class, want, rows[i].classes, rows[i].limit)
		}
	}
	if listed != 0 {
		t.Errorf("%d faults more are listed than are judged", listed)
	}
}
