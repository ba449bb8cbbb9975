package names

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/broker/failure"
)

// C-3: which names are valid.
func TestCheck(t *testing.T) {
	for name, want := range map[string]string{
		"ok":                     "",
		"ünïcode/:*":             "",
		"":                       "PRECONDITION_FAILED: queue \"\": name: is empty",
		"amq.gen":                `ACCESS_REFUSED: queue "amq.gen": names that start with "amq." are reserved`,
		"a\x00b":                 "PRECONDITION_FAILED: queue \"a\\x00b\": name: contains a NUL byte",
		"\xff":                   "PRECONDITION_FAILED: queue \"\\xff\": name: is not valid UTF-8",
		strings.Repeat("a", 256): "PRECONDITION_FAILED: queue \"" + strings.Repeat("a", 255) + "\": name = 256 bytes: the limit is 255 bytes",
	} {
		err := Check(name, failure.Error{Kind: "queue", Name: name})
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
}

// C-3: which names of vhosts, users and policies, and which keys of bindings, are valid.
func TestPlainNamesAndKeys(t *testing.T) {
	about := failure.Error{Kind: "user", Name: "x"}
	for _, row := range []struct {
		what string
		err  error
		want string
	}{
		{"a plain name", CheckPlain("ünïcode /*", ":", about), ""},
		{"a control character", CheckPlain("a\nb", "", about), `name = "a\nb": contains "\n"`},
		{"DEL", CheckPlain("a\x7f", "", about), `contains "\x7f"`},
		{"a byte that is bad there", CheckPlain("a:b", ":", about), `contains ":"`},
		{"the same elsewhere", CheckPlain("a:b", "", about), ""},
		{"a key", CheckKey(strings.Repeat("k", 255), about), ""},
		{"a long key", CheckKey(strings.Repeat("k", 256), about), "routing_key = 256 bytes: the limit is 255 bytes"},
		{"a key with NUL", CheckKey("a\x00", about), "routing_key: contains a NUL byte"},
	} {
		if row.want == "" && row.err != nil || row.want != "" && (row.err == nil || !strings.Contains(row.err.Error(), row.want)) {
			t.Errorf("%s: %v, want %q", row.what, row.err, row.want)
		}
	}
}

// AM-3: queues for answers and their addresses are hidden. The name that clients consume from is neither.
func TestIsReply(t *testing.T) {
	for name, want := range map[string]bool{
		ReplyTo: false, ReplyTo + ".secret.1": true, ReplyTo + ":hash": true, ReplyTo + "x": false, "q": false, "": false,
	} {
		if got := IsReply(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
