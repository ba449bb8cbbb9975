package config

import (
	"fmt"
	"os"
	"strings"
)

// The values of auth.mode.
const (
	authPassword = "password"
	authNone     = "none"
)

// Authenticate reports whether clients must log in.
func (c *Config) Authenticate() bool { return c.Auth.Mode == authPassword }

// validateAuth makes sure that only this host can get in without a login.
func (c *Config) validateAuth() []error {
	a := &c.Auth
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("config: "+format, args...)) }
	if a.Mode != authPassword && a.Mode != authNone {
		fault("auth.mode is %q: use password or none", a.Mode)
	}
	for _, l := range []struct{ key, address string }{
		{"listen.client", c.Listen.Client},
		{"listen.amqp", c.AMQP()},
		{"listen.amqps", c.AMQPS()},
		{"listen.management", c.Listen.Management},
	} {
		if a.Mode == authNone && l.address != "" && !onLoopback(l.address) {
			fault("auth.mode is none and %s is %s, which is reachable from other hosts: listen on 127.0.0.1, or set auth.mode to password",
				l.key, l.address)
		}
	}
	if c.AMQPS() != "" && c.TLS.Client.Cert == "" {
		fault("listen.amqps is %s without tls.client.cert: name a certificate, or set it to off", c.AMQPS())
	}
	if a.DefaultUser == "" || len(a.DefaultUser) > 255 || strings.ContainsAny(a.DefaultUser, ":\r\n\x00") {
		fault("auth.default_user is %q: use 1 to 255 characters without colon", a.DefaultUser)
	}
	if a.DefaultPassword == "" && a.DefaultPasswordFile == "" {
		fault("auth.default_password is empty: set it, or auth.default_password_file")
	}
	return append(errs, c.validateBackends()...)
}

// DefaultPassword returns the password of auth.default_user, from the file if one is set.
func (c *Config) DefaultPassword() (string, error) {
	name := c.Auth.DefaultPasswordFile
	if name == "" {
		return c.Auth.DefaultPassword, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("config: auth.default_password_file: %w: name a file that user %d may read", err, os.Getuid())
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" {
		return "", fmt.Errorf("config: auth.default_password_file %s is empty: write a password into it", name)
	}
	return password, nil
}
