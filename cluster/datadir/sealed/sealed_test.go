package sealed

import (
	"strings"
	"testing"
)

// The bytes of docs/formats/datadir.md.
func TestSealed(t *testing.T) {
	const golden = "quorate 1\nepoch 7\ncrc32c 8f8af2b9\n"
	if got := string(encode(Record{{"epoch", "7"}})); got != golden {
		t.Errorf("sealed %q, want %q", got, golden)
	}
	for b, want := range map[string]string{
		"": "no checksum", "quorate 1\nepoch 7\n": "no checksum", golden[:len(golden)-1]: "checksum is wrong",
		"quorate 1\nepoch 8\ncrc32c 8f8af2b9\n": "checksum is wrong", "quorate 2\ncrc32c 00000000\n": `"quorate 2"`,
	} {
		if _, err := decode([]byte(b)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("unsealing %q: %v", b, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(Record{{"epoch", "7"}}))
	f.Add([]byte("quorate 1\ncrc32c "))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decode(b)
		if err == nil && string(encode(r)) != string(b) {
			t.Errorf("%q is read but not written so", b)
		}
	})
}
