package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

func TestTicks(t *testing.T) {
	stat := "42 (a node) S 1 42 42 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 9 0 100 0 0"
	if n, err := ticksOf(stat); err != nil || n != 300 {
		t.Errorf("%d, %v, want 300", n, err)
	}
	if _, err := ticksOf("nonsense"); err == nil {
		t.Error("nonsense passes")
	}
}

func TestRowsAreJSON(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir, []Row{{Name: "n", Value: 1.5, Unit: "s", Aim: "lower"}}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "end_to_end.json"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	if err := json.Unmarshal(text, &rows); err != nil || len(rows) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	for _, key := range []string{"name", "value", "unit", "compared_with", "ratio", "aim"} {
		if _, has := rows[0][key]; !has {
			t.Errorf("row lacks %q", key)
		}
	}
}
