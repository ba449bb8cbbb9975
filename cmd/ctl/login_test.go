package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/testcluster"
)

// Who is logged in, by flags, environment and contexts, in this order; a password alone is nobody's.
func TestCompleteLogin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "contexts.yaml")
	t.Setenv(contextsEnv, file)
	if err := os.WriteFile(file, []byte("contexts: {with: {addresses: ['a:1'], user: ops}}"), contextsMode); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{addressesEnv, userEnv, passwordEnv, tokenEnv, contextEnv} {
		t.Setenv(name, "")
	}
	for _, row := range []struct {
		line, env                   string
		refused                     bool
		wantUser, wantPass, wantKey string
	}{
		{line: ""},
		{line: "--user u --password p", wantUser: "u", wantPass: "p"},
		{line: "--password p", refused: true},
		{env: "QUORATE_PASSWORD=p", refused: true},
		{line: "--password p", env: "QUORATE_USER=u", wantUser: "u", wantPass: "p"},
		{line: "--user u", env: "QUORATE_USER=v QUORATE_PASSWORD=p", wantUser: "u", wantPass: "p"},
		{line: "--context with --password p", wantUser: "ops", wantPass: "p"},
		{line: "--context with", env: "QUORATE_PASSWORD=p", wantUser: "ops", wantPass: "p"},
		{line: "--context with --password p", env: "QUORATE_USER=u", wantUser: "u", wantPass: "p"},
		{env: "QUORATE_TOKEN=k QUORATE_USER=u QUORATE_PASSWORD=p", wantKey: "k"},
		{line: "--user u", env: "QUORATE_TOKEN=k QUORATE_PASSWORD=p", wantUser: "u", wantPass: "p"},
	} {
		t.Run(row.env+" "+row.line, func(t *testing.T) {
			for pair := range strings.FieldsSeq(row.env) {
				name, value, _ := strings.Cut(pair, "=")
				t.Setenv(name, value)
			}
			s, root := newSession()
			if err := root.PersistentFlags().Parse(strings.Fields(row.line)); err != nil {
				t.Fatal(err)
			}
			err := s.complete()
			if row.refused {
				if err == nil || !strings.Contains(err.Error(), "and no user: give --user or QUORATE_USER as well") {
					t.Errorf("the error is %v", err)
				}
				return
			}
			if err != nil || s.user != row.wantUser || s.password != row.wantPass || s.token != row.wantKey {
				t.Errorf("user %q, password %q, token %q, %v", s.user, s.password, s.token, err)
			}
		})
	}
}

// A node that refuses a login has answered: the text says so, and for whom.
func TestRefusedLogin(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a node: not in short mode")
	}
	c := testcluster.Start(t, 1)
	for line, want := range map[string]string{
		"--user ops --password wrong": `the login of user "ops" was refused at ` + c.Addrs()[0],
		"--token none":                "the login with a token was refused at " + c.Addrs()[0],
	} {
		var errs bytes.Buffer
		code := run(t.Context(), append([]string{"-a", c.Addrs()[0], "whoami"}, strings.Fields(line)...), &bytes.Buffer{}, &errs)
		if code != exitRefused || !strings.Contains(errs.String(), want) || strings.Contains(errs.String(), "no node answers") {
			t.Errorf("quoratectl %s: %d, %s, want %q", line, code, &errs, want)
		}
	}
}

// A secret on the command line is warned of, with what to use instead, and is not in the warning.
func TestSecretsOnTheCommandLine(t *testing.T) {
	t.Setenv(addressesEnv, "127.0.0.1:1")
	for line, want := range map[string]string{
		"whoami --user a --password hush":         "warning: every user of this host can see --password in the list of processes: use QUORATE_PASSWORD, or",
		"whoami --token hush":                     "warning: every user of this host can see --token in the list of processes: use QUORATE_TOKEN, or",
		"user put a --new-password hush":          "warning: every user of this host can see --new-password in the list of processes: use --password-stdin",
		"user passwd a --new-password=hush":       "use --password-stdin",
		"migrate rabbitmq http://a:hush@[::1]:1/": "warning: every user of this host can see the URL in the list of processes: use " + rabbitPasswordEnv,
		"whoami --user a":                         "",
		"migrate rabbitmq http://a@[::1]:1/":      "",
		"user put a --no-password":                "",
	} {
		var out, errs bytes.Buffer
		run(t.Context(), append(strings.Fields(line), "--timeout", "50ms"), &out, &errs)
		if (want == "") == strings.Contains(errs.String(), "warning:") || !strings.Contains(errs.String(), want) || strings.Contains(errs.String(), "hush") {
			t.Errorf("quoratectl %s: %s", line, &errs)
		}
		if strings.Contains(out.String(), "warning") {
			t.Errorf("quoratectl %s writes the warning among its results: %s", line, &out)
		}
	}
}

// A user who has not started a node learns it at once, and not after --timeout.
func TestReportsThatNobodyAnswers(t *testing.T) {
	t.Setenv(contextsEnv, t.TempDir()+"/contexts.yaml")
	s, root := newSession()
	s.patience = 0
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs([]string{"-a", "127.0.0.1:1", "--timeout", "2s", "queue", "list"})
	err := root.ExecuteContext(t.Context())
	if away := (unreachableError{}); !errors.As(err, &away) || !strings.Contains(errs.String(), "no node answers at 127.0.0.1:1 yet; trying for ") {
		t.Errorf("%v, %q on stderr", err, errs.String())
	}
}

// A user who forgets --tls learns it.
func TestReportsTLS(t *testing.T) {
	t.Setenv(contextsEnv, t.TempDir()+"/contexts.yaml")
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", certified.TLS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1)) // shakes hands
			_ = c.Close()
		}
	}()
	var errs bytes.Buffer
	code := run(t.Context(), []string{"-a", l.Addr().String(), "--timeout", "5s", "queue", "list"}, &bytes.Buffer{}, &errs)
	if code != exitUnreachable || !strings.Contains(errs.String(), "give --tls or --tls-ca") {
		t.Errorf("%d, %s", code, &errs)
	}
}
