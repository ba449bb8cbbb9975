package main

import (
	"encoding/pem"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/quorate/quorate/internal/testcluster"
)

// Backups go to an S3 service with a certificate that the system does not trust: --s3-ca says who issued it, and what is
// wrong with its file is said before anything is copied.
func TestBackupToPrivateS3(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a node: not in short mode")
	}
	mem := s3mem.New()
	if err := mem.CreateBucket("backups"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(gofakes3.New(mem).Server())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that quoratectl refuses
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "user")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	dir := t.TempDir()
	issuer := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, content := range map[string][]byte{"ca.pem": issuer, "text.pem": []byte("no certificate")} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := testcluster.Start(t, 1)
	for _, row := range []struct {
		code     int
		contains string
		line     string
	}{
		{0, "true", "queue declare orders"},
		{0, "", "publish orders message"},
		{2, "--s3-ca: open DIR/none.pem: no such file or directory: name a PEM file", "backup create PLACE/a --s3-ca DIR/none.pem"},
		{2, "--s3-ca is DIR/text.pem: it has no certificate in PEM", "backup prune PLACE --keep 1 --s3-ca DIR/text.pem"},
		{1, "give the authority of the service's certificate", "backup create PLACE/a"},
		{1, "want https", "backup ls s3://backups/of --s3-ca DIR/ca.pem --s3-endpoint http://127.0.0.1:1"},
		{0, "/ orders 1", "backup create PLACE/a --s3-ca DIR/ca.pem"},
		{0, "ok: 1 queues with 1 messages", "backup verify PLACE/a --s3-ca DIR/ca.pem"},
		{0, "/ copy 1 1 0", "backup restore PLACE/a --s3-ca DIR/ca.pem --queue orders --as copy"},
		{0, "", "backup create PLACE/b --s3-ca DIR/ca.pem"},
		{0, "removed: s3://backups/of/a", "backup prune PLACE --keep 1 --s3-ca DIR/ca.pem"},
		{0, "s3://backups/of/b complete", "backup ls PLACE --s3-ca DIR/ca.pem"},
	} {
		line := strings.NewReplacer("DIR", dir, "PLACE", "s3://backups/of").Replace(row.line)
		args := append([]string{"-a", strings.Join(c.Addrs(), ",")}, strings.Fields(line)...)
		if strings.Contains(line, "s3://") && !strings.Contains(line, "--s3-endpoint") {
			args = append(args, "--s3-endpoint", server.URL, "--s3-region", "us-east-1")
		}
		var o, e shared
		got := run(t.Context(), args, &o, &e)
		all := blanks.ReplaceAllString(o.String()+e.String(), " ")
		if got != row.code || !strings.Contains(all, strings.ReplaceAll(row.contains, "DIR", dir)) {
			t.Errorf("quoratectl %s: %d, want %d and %q\n%s", line, got, row.code, row.contains, all)
		}
	}
}
