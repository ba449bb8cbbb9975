package oauth2

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// MaxDocumentBytes bounds an answer of the issuer.
	MaxDocumentBytes = 256 << 10
	// fetchTimeout bounds one fetch: the issuer's description and its keys.
	fetchTimeout = 5 * time.Second
)

// fetcher reads the keys of an issuer.
type fetcher struct {
	cfg    *Config
	client http.Client
}

// newFetcher makes the HTTP client. It follows no redirects, keeps no connections between the rare
// fetches, and bounds the response header.
func newFetcher(c *Config) *fetcher {
	return &fetcher{cfg: c, client: http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: c.tls(), MaxResponseHeaderBytes: MaxDocumentBytes,
			DisableKeepAlives: true, ForceAttemptHTTP2: true,
		},
		// Only the settings and the issuer decide where the keys are, never a redirect on the way.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// keys returns the keys that the issuer publishes now.
func (f *fetcher) keys(ctx context.Context) ([]key, []error, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	at := f.cfg.KeysURL
	if at == "" {
		var err error
		if at, err = f.discover(ctx); err != nil {
			return nil, nil, err
		}
	}
	document, err := f.get(ctx, at)
	if err != nil {
		return nil, nil, err
	}
	keys, faults, err := parseKeys(document)
	if err != nil {
		return nil, nil, fmt.Errorf("%s %w", at, err)
	}
	return keys, faults, nil
}

// discover returns the URL of the issuer's keys.
func (f *fetcher) discover(ctx context.Context) (string, error) {
	at := strings.TrimSuffix(f.cfg.Issuer, "/") + "/.well-known/openid-configuration"
	document, err := f.get(ctx, at)
	if err != nil {
		return "", err
	}
	var about struct {
		Issuer  string `json:"issuer"`
		KeysURL string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(document, &about); err != nil {
		return "", fmt.Errorf("%s is not a description of an issuer: %w", at, err)
	}
	if about.Issuer != f.cfg.Issuer {
		return "", fmt.Errorf("%s describes the issuer %.200q: set auth.oauth2.issuer to exactly that, or correct the URL", at, about.Issuer)
	}
	if err := checkURL(about.KeysURL); err != nil {
		return "", fmt.Errorf("%s gives %.200q as the URL of its keys: %w", at, about.KeysURL, err)
	}
	return about.KeysURL, nil
}

// get reads one document. MaxDocumentBytes bounds the body; any status but 200 is an error.
func (f *fetcher) get(ctx context.Context, at string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	res, err := f.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", at, res.Status)
	}
	document, err := io.ReadAll(io.LimitReader(res.Body, MaxDocumentBytes+1))
	if err == nil && len(document) > MaxDocumentBytes {
		err = errors.New("is longer than " + fmt.Sprint(MaxDocumentBytes) + " bytes")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return document, nil
}
