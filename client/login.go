package client

import (
	"context"
	"encoding/base64"
	"time"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// DefaultUser is the name and the password of the user of a fresh cluster (VH-1).
const DefaultUser = "guest"

// nameHeader is the metadata with the client's name.
const nameHeader = "quorate-client-name"

// login is the credential that goes with every call and stream, and the client's name.
type login map[string]string

// login returns the metadata that every call carries. A token takes precedence over user and
// password. With neither, the client logs in as guest.
func (c *Config) login() login {
	user, password := c.Username, c.Password
	if user == "" && password == "" {
		user, password = DefaultUser, DefaultUser
	}
	value := "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	if c.Token != "" {
		value = "Bearer " + c.Token
	}
	with := login{"authorization": value}
	if c.Name != "" {
		with[nameHeader] = c.Name
	}
	return with
}

// credential is what calls and streams carry: the login, and the connection if there is one.
type credential struct {
	login      login
	connection *connection
}

// GetRequestMetadata returns the credential.
func (c credential) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if with := c.connection.metadata.Load(); with != nil {
		return *with, nil
	}
	return c.login, nil
}

// RequireTransportSecurity returns false: running without TLS is the operator's choice.
func (credential) RequireTransportSecurity() bool { return false }

// WhoAmI returns the identity of the client's login.
func (c *Client) WhoAmI(ctx context.Context) (Identity, error) {
	return ask[Identity](ctx, c, nothing{}, access, brokerv1.AccessClient.WhoAmI)
}

// MintToken makes a token for the client's user with a lifetime; 0 is an hour. The token also ends
// when the user's password changes.
func (c *Client) MintToken(ctx context.Context, lifetime time.Duration) (Token, error) {
	type request struct {
		Lifetime time.Duration `api:"lifetime_ms"`
	}
	return ask[Token](ctx, c, request{lifetime}, access, brokerv1.AccessClient.MintToken)
}

// RevokeToken revokes a token by its id, and reports whether it existed.
func (c *Client) RevokeToken(ctx context.Context, id string) (existed bool, err error) {
	out, err := ask[deleted](ctx, c, ofID{id}, access, brokerv1.AccessClient.RevokeToken)
	return out.Yes, err
}
