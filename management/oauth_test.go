package management_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/issuer"
	"github.com/quorate/quorate/internal/testcluster"
)

// A token logs in over HTTP, as itself and as a password; its tags say what it sees (ID-4, VH-12).
func TestTokens(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	i := issuer.Start(t)
	i.Rotate("k", "EdDSA", false)
	c := testcluster.StartTokens(t, 1, i.URL())
	w := serve(t, c.Broker(0), "n")
	token := func(tag string, end time.Time) string {
		return i.Sign("k", "EdDSA", i.Claims("ann", "quorate", map[string]any{"scope": "quorate.tag:" + tag, "exp": end.Unix()}))
	}
	bearer := func(text string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.base+"/api/whoami", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+text)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, answer.Header.Get("WWW-Authenticate")
	}
	hour := time.Now().Add(time.Hour)
	for text, want := range map[string]int{
		token("management", hour): http.StatusOK, token("impersonator", hour): http.StatusForbidden,
		token("management", time.Now().Add(-time.Hour)): http.StatusUnauthorized, "x": http.StatusUnauthorized, "": http.StatusUnauthorized,
	} {
		if code, asks := bearer(text); code != want || (asks != "") != (want == http.StatusUnauthorized) {
			t.Errorf("%d, asks for %q, want %d", code, asks, want)
		}
	}
	var who struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}
	if code, _ := w.ask(http.MethodGet, "/api/whoami", "x", token("monitoring", hour), &who); code != http.StatusOK ||
		who.Name != "ann" || !slices.Equal(who.Tags, []string{"monitoring"}) {
		t.Errorf("%d %+v", code, who)
	}
}
