package page

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"path"
	"testing"
)

// The files of others are those that were released: a change of one is a change of docs/dependencies.md.
func TestVendoredFiles(t *testing.T) {
	want := map[string]string{
		"htmx-4.0.1.min.js":    "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
		"uplot-1.6.32.min.js":  "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"uplot-1.6.32.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
	}
	files, err := fs.Glob(staticFiles, "static/vendor/*")
	if err != nil || len(files) != len(want) {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		b, err := staticFiles.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != want[path.Base(f)] {
			t.Errorf("%s has the hash %x", f, sum)
		}
	}
}
