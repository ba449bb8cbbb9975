package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"
)

// Row is one figure.
type Row struct {
	Name         string   `json:"name"`
	Value        float64  `json:"value"`
	Unit         string   `json:"unit"`
	ComparedWith string   `json:"compared_with"` // another row's name, or a limit; "": no comparison
	Ratio        *float64 `json:"ratio"`         // Value divided by that; null: no comparison
	Aim          string   `json:"aim"`
}

// Aims of rows that have no limit.
const (
	higher = "higher"
	lower  = "lower"
)

// compare sets the ratio of rows[i] to the row that it names. Rows without such a name keep their
// ratio; an unknown name is an error.
func compare(rows []Row) error {
	values := make(map[string]float64, len(rows))
	for _, r := range rows {
		if _, twice := values[r.Name]; twice {
			return fmt.Errorf("two rows are named %q", r.Name)
		}
		values[r.Name] = r.Value
	}
	for i, r := range rows {
		if r.ComparedWith == "" || r.Ratio != nil {
			continue
		}
		other, ok := values[r.ComparedWith]
		if !ok {
			return fmt.Errorf("row %q is compared with %q, which was not measured", r.Name, r.ComparedWith)
		}
		if other != 0 { // a ratio to zero does not exist
			ratio := r.Value / other
			rows[i].Ratio = &ratio
		}
	}
	return nil
}

// printTable writes rows with the ratio first, because only the ratio is comparable between
// machines.
func printTable(to io.Writer, rows []Row) error {
	w := tabwriter.NewWriter(to, 0, 4, 2, ' ', 0)
	if _, err := fmt.Fprintln(w, "ratio\tfigure\tvalue\tunit\taim\tcompared with"); err != nil {
		return err
	}
	for _, r := range rows {
		ratio := "-"
		if r.Ratio != nil {
			ratio = short(*r.Ratio)
		}
		if _, err := fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", ratio, r.Name, short(r.Value), r.Unit, r.Aim, r.ComparedWith); err != nil {
			return err
		}
	}
	return w.Flush()
}

// short writes a value with three or more significant digits.
func short(v float64) string {
	digits := 0
	switch {
	case v == 0 || v >= 100:
	case v >= 10:
		digits = 1
	case v >= 1:
		digits = 2
	default:
		digits = 3
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// write stores rows as dir/name.json, unless dir is empty.
func write[T any](dir, name string, rows []T) error {
	if dir == "" {
		return nil
	}
	text, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".json"), append(text, '\n'), 0o640)
}
