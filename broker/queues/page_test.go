package queues

import (
	"testing"

	"github.com/quorate/quorate/catalog"
)

func TestPageToken(t *testing.T) {
	p, err := decodePage(encodePage(&catalog.QueueRecord{VHost: "/", Name: "m"}))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"a": false, "m": false, "n": true} {
		if got := p.before(&catalog.QueueRecord{VHost: "/", Name: name}); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if _, err := decodePage("zzz"); err == nil {
		t.Error("a bad token is taken")
	}
}
