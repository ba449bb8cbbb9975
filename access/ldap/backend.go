package ldap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	ber "github.com/go-asn1-ber/asn1-ber"
	"github.com/go-ldap/ldap/v3"

	"github.com/quorate/quorate/access"
)

// Name is the backend's name in the configuration and in metrics.
const Name = "ldap"

// Limits on calls of a directory.
const (
	// MaxBinds bounds the users that a node checks with a directory at a time; more logins wait.
	MaxBinds = 16
	// MaxGroups bounds the groups of a user.
	MaxGroups = 1000
	// maxPacketBytes bounds one answer of a directory.
	maxPacketBytes = 1 << 20
)

// bound limits the packets that the library accepts; the library has one limit for all connections.
var bound = sync.OnceFunc(func() { ber.MaxPacketLengthBytes = maxPacketBytes }) //nolint:gochecknoglobals // as is what it sets

// Backend authenticates users of a directory. Its methods may be called concurrently.
type Backend struct {
	cfg   Config
	slots chan struct{}
}

// New returns a backend. The Config must be valid.
func New(c Config) *Backend {
	c.GroupMember, c.GroupName = cmp.Or(c.GroupMember, "member"), cmp.Or(c.GroupName, "cn")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	bound()
	return &Backend{cfg: c, slots: make(chan struct{}, MaxBinds)}
}

// Name implements access.Backend.
func (*Backend) Name() string { return Name }

// Tokens implements access.Backend.
func (*Backend) Tokens() bool { return false }

func wrong() error { return &access.Refused{Reason: access.WrongPassword} }

// Authenticate implements access.Backend (ID-6).
func (b *Backend) Authenticate(ctx context.Context, c access.Credentials) (*access.Identity, error) {
	if c.Secret == "" || strings.TrimSpace(c.User) != c.User || access.CheckName(c.User) != nil {
		return nil, wrong() // a directory takes an empty password for an anonymous bind, and ignores blanks around a name
	}
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var errs []error
	for _, server := range b.cfg.Servers {
		id, err := b.ask(ctx, server, c)
		if _, refused := errors.AsType[*access.Refused](err); err == nil || refused {
			return id, err
		}
		errs = append(errs, fmt.Errorf("%s: %w", server, err))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	err := errors.Join(errs...)
	b.cfg.Logger.Warn("no directory answers", "error", err)
	return nil, &access.Unavailable{Backend: Name, Cause: errors.New("no directory answers")}
}

// ask tries one server.
func (b *Backend) ask(ctx context.Context, server string, c access.Credentials) (*access.Identity, error) {
	conn, err := b.dial(ctx, server)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // the connection may be closed already
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if deadline, has := ctx.Deadline(); has {
		conn.SetTimeout(max(time.Until(deadline), time.Millisecond))
	}
	if err := b.secure(conn, server); err != nil {
		return nil, err
	}
	dn, name, err := b.find(conn, c.User)
	if err != nil {
		return nil, err
	}
	if err := conn.Bind(dn, c.Secret); err != nil {
		if refuses(err) {
			return nil, wrong()
		}
		return nil, err
	}
	scopes, err := b.scopes(conn, dn)
	if err != nil {
		return nil, err
	}
	rights, tags := access.ParseScopes(scopes)
	return &access.Identity{Name: name, Tags: tags, Rights: rights}, nil
}

// dial opens a connection by the scheme of the server's URL. The context's deadline bounds the
// dial; the TLS configuration verifies the host name of the URL.
func (b *Backend) dial(ctx context.Context, server string) (*ldap.Conn, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	d := &net.Dialer{}
	if deadline, has := ctx.Deadline(); has {
		d.Deadline = deadline
	}
	return ldap.DialURL(server, ldap.DialWithDialer(d), ldap.DialWithTLSConfig(b.cfg.tls(u.Hostname())))
}

// secure upgrades the connection by StartTLS if the settings ask for it, before any credentials are
// sent.
func (b *Backend) secure(conn *ldap.Conn, server string) error {
	if !b.cfg.StartTLS {
		return nil
	}
	u, err := url.Parse(server)
	if err != nil {
		return err
	}
	return conn.StartTLS(b.cfg.tls(u.Hostname()))
}

// refuses reports whether the directory answered that the name or password is wrong, or that the user may not log in.
func refuses(err error) bool {
	return ldap.IsErrorAnyOf(err, ldap.LDAPResultInvalidCredentials, ldap.LDAPResultInappropriateAuthentication, ldap.LDAPResultNoSuchObject,
		ldap.LDAPResultInvalidDNSyntax, ldap.LDAPResultUnwillingToPerform, ldap.LDAPResultConstraintViolation, ldap.LDAPResultInsufficientAccessRights)
}

// find returns the name of a user's entry, and the user's name as the directory writes it.
func (b *Backend) find(conn *ldap.Conn, user string) (dn, name string, err error) {
	if b.cfg.UserDN != "" {
		return strings.ReplaceAll(b.cfg.UserDN, userName, ldap.EscapeDN(user)), user, nil
	}
	if err := b.service(conn); err != nil {
		return "", "", err
	}
	a := b.cfg.LookupAttribute
	found, err := conn.Search(ldap.NewSearchRequest(b.cfg.LookupBase, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 2, 0, false,
		"("+a+"="+ldap.EscapeFilter(user)+")", []string{a}, nil))
	switch {
	case ldap.IsErrorWithCode(err, ldap.LDAPResultSizeLimitExceeded), err == nil && len(found.Entries) > 1:
		b.cfg.Logger.Warn("a user is refused because several entries of the directory have its name: narrow auth.ldap.dn_lookup_base", "attribute", a)
		return "", "", wrong()
	case err != nil:
		return "", "", err
	case len(found.Entries) == 0 || found.Entries[0].DN == "":
		return "", "", wrong()
	}
	for _, value := range found.Entries[0].GetEqualFoldAttributeValues(a) {
		if strings.EqualFold(value, user) {
			return found.Entries[0].DN, value, nil
		}
	}
	return "", "", wrong() // the directory treats names as equal that differ in this cluster
}

// service binds for searches. A failure says nothing about the user who logs in.
func (b *Backend) service(conn *ldap.Conn) error {
	if b.cfg.LookupDN == "" {
		return nil
	}
	if err := conn.Bind(b.cfg.LookupDN, b.cfg.LookupPassword); err != nil {
		return fmt.Errorf("auth.ldap.dn_lookup_bind_dn: %w", err)
	}
	return nil
}

// scopes returns the scopes of the groups that an entry belongs to.
func (b *Backend) scopes(conn *ldap.Conn, dn string) (scopes []string, err error) {
	if len(b.cfg.Groups) == 0 {
		return nil, nil
	}
	if err := b.service(conn); err != nil {
		return nil, err
	}
	found, err := conn.Search(ldap.NewSearchRequest(b.cfg.GroupBase, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, MaxGroups, 0, false,
		"("+b.cfg.GroupMember+"="+ldap.EscapeFilter(dn)+")", []string{b.cfg.GroupName}, nil))
	if err != nil {
		return nil, fmt.Errorf("groups below auth.ldap.group_base: %w", err)
	}
	for _, g := range found.Entries {
		for _, name := range g.GetEqualFoldAttributeValues(b.cfg.GroupName) {
			scopes = append(scopes, b.cfg.Groups[name]...)
		}
	}
	return scopes, nil
}
