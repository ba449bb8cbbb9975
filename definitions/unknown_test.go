package definitions

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/catalog"
)

// C-9, VH-9: whether a vhost refuses unknown arguments is in documents, and planned although the
// cluster has not finalised the version yet that brings it.
func TestUnknownArguments(t *testing.T) {
	const text = `{"vhosts": [{"name": "strict", "metadata": {"unknown_arguments": "refuse"}}, {"name": "plain"}]}`
	c := cluster(t)
	for _, s := range Plan(parse(t, []byte(text), ""), c.View(), nil) {
		put, is := s.Command.(*catalog.PutVHost)
		if !is || s.Action != Create || put.RefuseUnknown != (s.Name == "strict") {
			t.Errorf("%s %q: %v %s", s.Kind, s.Name, s.Action, s.Reason)
		}
	}
	apply(t, c, &catalog.RaiseVersion{Version: catalog.VersionUsers})
	carryOut(t, c, Plan(parse(t, []byte(text), ""), c.View(), nil))
	whole := export(t, c.View(), "")
	if n := strings.Count(string(whole), `"unknown_arguments": "refuse"`); n != 1 {
		t.Errorf("%d vhosts refuse unknown arguments:\n%s", n, whole)
	}
	for _, s := range Plan(parse(t, whole, ""), c.View(), nil) {
		if s.Action != Keep {
			t.Errorf("after its export, %s %q: %v %s", s.Kind, s.Name, s.Action, s.Reason)
		}
	}
	_, err := Parse([]byte(strings.Replace(text, "refuse", "ignore", 1)), "")
	if err == nil || !strings.Contains(err.Error(), `"ignore"; want one of warn, refuse`) {
		t.Errorf("another word: %v", err)
	}
}
