package config

import (
	"crypto/tls"
	"slices"
	"strings"
	"testing"
)

// Versions and suites are known ones, and safe; the default is TLS 1.2 with Go's choice.
func TestCiphers(t *testing.T) {
	load := func(settings string) (*Config, error) {
		return Load("", strings.Fields(settings+" QUORATE_NODE_ID=n1 QUORATE_CLUSTER__ADMISSION=open"), nil)
	}
	const version, suites = "QUORATE_TLS__MIN_VERSION=", "QUORATE_TLS__CIPHER_SUITES="
	for settings, want := range map[string]string{
		version + "1.1":   "tls.min_version is \"1.1\": use 1.2 or 1.3",
		version + "TLS12": "tls.min_version is \"TLS12\"",
		suites + "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA25": "did you mean TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256?",
		suites + "ALL":                      "tls.cipher_suites has \"ALL\", which is not a cipher suite: use some of TLS_ECDHE",
		suites + "TLS_RSA_WITH_RC4_128_SHA": "TLS_RSA_WITH_RC4_128_SHA, which is not safe",
		suites + "TLS_AES_128_GCM_SHA256":   "TLS_AES_128_GCM_SHA256, which belongs to TLS 1.3",
		version + "1.3 " + suites + "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "leave one of them out",
	} {
		if _, err := load(settings); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", settings, err, want)
		}
	}
	c, err := load("")
	if err != nil || c.MinTLS() != tls.VersionTLS12 || c.Ciphers() != nil {
		t.Errorf("the default: %x %v, %v", c.MinTLS(), c.Ciphers(), err)
	}
	c, err = load(suites + "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384")
	want := []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384}
	if have := c.Ciphers(); err != nil || !slices.Contains(have, want[0]) || !slices.Contains(have, want[1]) || len(have) != 2 {
		t.Errorf("%v, %v", have, err)
	}
}
