package table_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/table"
)

// What a custom resource says arrives at the broker, and comes back, as the same values.
func TestThereAndBack(t *testing.T) {
	wanted, faults := table.Parse([]byte(`{"n": 1, "big": 18446744073709551615, "f": 1.5, "s": "x", "b": true, "z": null, "l": [1, {"k": "v"}]}`))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	found := table.FromClient(table.ToClient(wanted))
	if d := table.Compare("arguments", wanted, found, table.Everything); len(d) > 0 {
		t.Errorf("differences %v", d)
	}
	if a, b := table.Key(wanted), table.Key(found); a != b {
		t.Errorf("keys %s and %s", a, b)
	}
	for _, empty := range []string{"", "null", "{}"} {
		if got, faults := table.Parse([]byte(empty)); len(got) > 0 || len(faults) > 0 {
			t.Errorf("%q: %v, %v", empty, got, faults)
		}
	}
}

// Values are equal by class and value: a client may have declared a shorter integer.
func TestCompare(t *testing.T) {
	wanted, _ := table.Parse([]byte(`{"same": 5, "text": "5", "only": true, "passed": 1}`))
	found := table.FromClient(client.Table{
		"same": int16(5), "text": int64(5), "more": time.Unix(7, 0), "passed": int64(2),
	})
	got := table.Text(table.Compare("arguments", wanted, found, func(name string) bool { return name != "passed" }))
	want := `arguments[more]: wanted absent, found 7; arguments[only]: wanted true, found absent; arguments[text]: wanted "5", found 5`
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// Faults say where in the table they are, so that the field of the specification can be named.
func TestFaults(t *testing.T) {
	_, faults := table.Parse([]byte(`{"a": {"b": 99999999999999999999}}`))
	if len(faults) != 1 || faults[0].Path != ".a.b" {
		t.Errorf("%v", faults)
	}
	if _, faults := table.Parse([]byte(`[1]`)); len(faults) != 1 || faults[0].Path != "" {
		t.Errorf("%v", faults)
	}
}
