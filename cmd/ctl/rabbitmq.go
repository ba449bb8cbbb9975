package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	// rabbitPasswordEnv holds the password for a URL that has a user and no password, so that no list
	// of processes shows it.
	rabbitPasswordEnv = "RABBITMQ_PASSWORD"
	// definitionsPath is the path of the definitions in RabbitMQ's management API.
	definitionsPath = "/api/definitions"
	// headerTimeout bounds the wait for the header of the answer.
	headerTimeout = time.Minute
)

var errURL = usageError{errors.New("the URL cannot be read: give http://USER:PASSWORD@HOST:15672, and special characters of the password as %XX")}

// fetchDefinitions gets RabbitMQ's definitions from the management API at the URL, which holds user
// and password. Errors contain neither.
func fetchDefinitions(ctx context.Context, from, ca string) ([]byte, error) {
	u, err := url.Parse(from)
	if err != nil {
		return nil, errURL // and not err, which may contain parts of the password
	}
	login := u.User
	u.User = nil
	if !strings.Contains(u.Path, definitionsPath) {
		u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/")+definitionsPath, ""
	}
	get, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, usageError{err}
	}
	if login != nil {
		password, given := login.Password()
		if !given {
			password = os.Getenv(rabbitPasswordEnv)
		}
		get.SetBasicAuth(login.Username(), password)
	}
	t, err := rabbitTransport(ca)
	if err != nil {
		return nil, err
	}
	defer t.CloseIdleConnections()
	answer, err := (&http.Client{Transport: t}).Do(get)
	if _, unknown := errors.AsType[*tls.CertificateVerificationError](err); unknown {
		return nil, fmt.Errorf("%w: name its authority with --rabbitmq-ca", err)
	}
	if err != nil {
		return nil, fmt.Errorf("RabbitMQ's management API does not answer, check that the port is that of its HTTP API: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	return readAnswer(answer, u)
}

// rabbitTransport trusts the authorities in the file ca, or the system's for "".
func rabbitTransport(ca string) (*http.Transport, error) {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, ResponseHeaderTimeout: headerTimeout}
	trusted, err := readAuthorities("--rabbitmq-ca", ca)
	if err == nil && trusted != nil {
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted}
	}
	return t, err
}

// readAnswer returns the definitions, or an error with the remedy for the usual mistakes of address
// and login.
func readAnswer(answer *http.Response, u *url.URL) ([]byte, error) {
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fmt.Errorf("%s: %s: give user and password, http://USER:PASSWORD@HOST:15672, of a user with the tag administrator", u, answer.Status)
	default:
		return nil, fmt.Errorf("%s: %s: give the address of RabbitMQ's management API, http://USER:PASSWORD@HOST:15672", u, answer.Status)
	}
	document, err := io.ReadAll(answer.Body) // the cluster refuses a document that is too large, as it does for a file
	if err != nil {
		return nil, fmt.Errorf("%s: the definitions were cut off: %w", u, err)
	}
	return document, nil
}
