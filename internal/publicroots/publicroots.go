// Package publicroots checks that a program trusts public authorities where the system has none, as in an image that
// holds nothing but the program. It is for the tests of programs.
package publicroots

import (
	"crypto/x509"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// alone is the variable that marks the process that Trusted starts.
const alone = "QUORATE_TEST_AUTHORITIES"

// Trusted fails t unless the program that it is a test of trusts public authorities without those of the system, after
// trust; nil: from its start. For that it runs t again, in a process of its own: what a process trusts is read once. t
// has no parent, and calls nothing else.
func Trusted(t *testing.T, trust func() error) {
	t.Helper()
	if os.Getenv(alone) != "" {
		if trust != nil {
			if err := trust(); err != nil {
				t.Fatal(err)
			}
		}
		pool, err := x509.SystemCertPool()
		if err != nil || pool.Equal(x509.NewCertPool()) {
			t.Errorf("no authority is trusted: %v: use golang.org/x/crypto/x509roots/fallback", err)
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), alone+"=1", "SSL_CERT_FILE=/nonexistent", "SSL_CERT_DIR=/nonexistent")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
}
