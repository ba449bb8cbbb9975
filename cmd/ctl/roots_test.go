package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"testing"
)

// Where the system trusts nobody, as in the image, there are public authorities all the same.
func TestPublicAuthorities(t *testing.T) {
	const alone = "QUORATE_TEST_AUTHORITIES"
	if os.Getenv(alone) != "" {
		pool, err := x509.SystemCertPool()
		if err != nil || pool.Equal(x509.NewCertPool()) {
			t.Errorf("no authority is trusted: %v", err)
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPublicAuthorities$", "-test.v")
	cmd.Env = append(os.Environ(), alone+"=1", "SSL_CERT_FILE=/nonexistent", "SSL_CERT_DIR=/nonexistent")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
