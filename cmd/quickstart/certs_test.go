package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/cmd/node/config"
)

// The certificates are such as nodes take; a second run adds to the first, and nothing
// is overwritten.
func TestCerts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	var out bytes.Buffer
	first := certsConfig{dir: dir, cluster: "orders", nodes: []string{"n1", "größe_2"}, clients: []string{"op"}, hosts: []string{"*.example", "10.0.0.1"}}
	if err := makeCerts(&first, time.Now(), &out); err != nil {
		t.Fatal(err)
	}
	if err := makeCerts(&certsConfig{dir: dir, cluster: "orders", nodes: []string{"n3"}}, time.Now(), &out); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"n1", "größe_2", "n3"} {
		c := config.Config{NodeID: n}
		c.Cluster.Name = "orders"
		c.TLS.Peer = config.TLSFiles{
			Cert: filepath.Join(dir, n, pairCert), Key: filepath.Join(dir, n, pairKey), CA: filepath.Join(dir, "n1", authorityCert),
		}
		c.TLS.Client = c.TLS.Peer
		if err := c.CheckFiles(); err != nil {
			t.Errorf("node %s: %v", n, err)
		}
	}
	before, err := os.ReadFile(filepath.Join(dir, "n1", pairKey))
	if err != nil {
		t.Fatal(err)
	}
	err = makeCerts(&certsConfig{dir: dir, cluster: "a b", nodes: []string{"n1", "n9", "n9", "a/b"}}, time.Now(), &out)
	for _, want := range []string{
		filepath.Join(dir, "n1") + " exists already", `"n9" is given twice`, `name "a/b" cannot be`, `--cluster: cluster name "a b"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "n9")); err == nil {
		t.Error("a run with faults made something")
	}
	if after, err := os.ReadFile(filepath.Join(dir, "n1", pairKey)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the key was overwritten, %v", err)
	}
	if err := makeCerts(&certsConfig{dir: dir, cluster: "orders", nodes: []string{"n4"}}, time.Now().Add(2*certificateLife), &out); err == nil ||
		!strings.Contains(err.Error(), "create a new one") {
		t.Errorf("an authority that ended issued a certificate: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, authorityKey)); err != nil {
		t.Fatal(err)
	}
	if err := makeCerts(&certsConfig{dir: dir, cluster: "orders", nodes: []string{"n4"}}, time.Now(), &out); err == nil ||
		!strings.Contains(err.Error(), "one is missing") {
		t.Errorf("half an authority: %v", err)
	}
}
