package main

import (
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/issuer"
)

// A node takes the tokens of the issuer that its settings name, over HTTPS with an authority of its own,
// and starts without it (ID-1, ID-4).
func TestTokensOfIssuer(t *testing.T) {
	t.Parallel()
	binary := build(t)
	i := issuer.StartTLS(t)
	i.Rotate("k", "ES256", false)
	i.Break(issuer.Down)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Server().Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := chaos.NewCluster(chaos.ClusterConfig{Binary: binary, Dir: t.TempDir(), Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	c.Nodes[0].Use(binary, "QUORATE_AUTH__BACKENDS=internal,oauth2", "QUORATE_AUTH__OAUTH2__ISSUER="+i.URL(),
		"QUORATE_AUTH__OAUTH2__RESOURCE_SERVER_ID=orders", "QUORATE_AUTH__OAUTH2__CA="+ca,
		"QUORATE_AUTH__OAUTH2__SCOPE_ALIASES=boss=orders.tag:administrator,boss=orders.configure:*/*")
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	n := c.Nodes[0]
	dial := func(cfg client.Config) (*client.Client, error) {
		cfg.Addresses, cfg.FixedAddresses = []string{n.Client}, true
		cl, err := client.Dial(ctx, cfg)
		if err == nil {
			t.Cleanup(cl.Close)
		}
		return cl, err
	}
	if _, err := dial(client.Config{Username: "guest", Password: "guest"}); err != nil {
		t.Fatal(err)
	}
	token := i.Sign("k", "ES256", i.Claims("ann", "orders", map[string]any{"scope": "boss"}))
	short, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	if cl, err := client.Dial(short, client.Config{Token: token, Addresses: []string{n.Client}, FixedAddresses: true}); err == nil {
		cl.Close()
		t.Error("a token logs in while nobody can tell")
	}
	i.Break(nil)
	ann, err := dial(client.Config{Token: token})
	for err != nil && ctx.Err() == nil { // until the node asks again
		ann, err = dial(client.Config{Token: token})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ann.DeclareQueue(ctx, client.Queue{Name: "q"}); err != nil {
		t.Error(err)
	}
	if users, err := client.Collect(ann.Users(ctx)); err != nil || len(users) != 1 {
		t.Errorf("%v, %v", users, err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.HTTP+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`quorate_logins_total{backend="oauth2",outcome="accepted"} `, "quorate_oauth_keys 1\n", `outcome="unavailable"`} {
		if !strings.Contains(string(page), want) {
			t.Errorf("metrics lack %q", want)
		}
	}
	log, err := os.ReadFile(n.LogFile())
	if err == nil && strings.Contains(string(log), token[:40]) {
		t.Error("a token is in the log")
	}
}
