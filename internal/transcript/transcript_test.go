package transcript_test

import (
	"reflect"
	"testing"

	"github.com/quorate/quorate/internal/transcript"
)

func TestCommands(t *testing.T) {
	t.Parallel()
	page := "# A page\n\n```sh\n$ not this\n```\n\n```console n1\n$ one --long \\\n    more\nsays   a\n\n$ two\n```\n1. A step.\n\n   ```console\n   $ three\n   b …\n   ```\n"
	got := transcript.Commands(page)
	want := []transcript.Command{
		{Where: "n1", Line: "one --long more", Want: []string{"says   a"}},
		{Where: "n1", Line: "two"},
		{Line: "three", Want: []string{"b …"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	c := transcript.Command{Want: []string{"a  b", "n… (x)"}}
	for output, want := range map[string]string{
		"  a b \nnode (x)\n": "",
		"a b\n":              "n… (x)",
		"a bc\nnode (x)\n":   "a  b",
	} {
		if got := c.Missing(output); got != want {
			t.Errorf("of %q %q is missing, want %q", output, got, want)
		}
	}
}
