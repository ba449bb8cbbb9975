package nearest_test

import (
	"testing"

	"github.com/quorate/quorate/internal/nearest"
)

func TestName(t *testing.T) {
	t.Parallel()
	known := []string{"max-length", "max-length-bytes", "overflow", "ttl"}
	for name, want := range map[string]string{
		"max-lngth":          "max-length",
		"maximum-length":     "max-length",
		"max-length-byte":    "max-length-bytes",
		"over-flow":          "overflow",
		"tl":                 "ttl",
		"ha-mode":            "",
		"something-else":     "",
		"":                   "",
		"x-max-length-bytes": "max-length-bytes",
	} {
		if got := nearest.Name(name, known); got != want {
			t.Errorf("%q is taken for %q, want %q", name, got, want)
		}
	}
	if got := nearest.Name("x", nil); got != "" {
		t.Errorf("%q is nearest where nothing is known", got)
	}
}
