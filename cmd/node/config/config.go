// Package config reads the node's settings: flags before the environment before a YAML file before
// defaults. Unknown names are errors in all of them.
package config

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/clock"
)

// Config has all settings of a node; the fields are those of Keys.
type Config struct {
	NodeID  string `koanf:"node_id"`
	DataDir string `koanf:"data_dir"`
	Storage struct {
		DiskLow   int64 `koanf:"disk_low"`
		DiskFloor int64 `koanf:"disk_floor"`
	} `koanf:"storage"`
	Cluster struct {
		Name          string   `koanf:"name"`
		Expect        int      `koanf:"expect"`
		Join          []string `koanf:"join"`
		GossipKeyFile string   `koanf:"gossip_key_file"`
		Admission     string   `koanf:"admission"`
		Finalize      string   `koanf:"finalize"`
		// ReplaceLostAfter is the time after which a node that comes with an empty directory is admitted
		// automatically.
		ReplaceLostAfter time.Duration `koanf:"replace_lost_after"`
		Reconcile        struct {
			Enabled    bool          `koanf:"enabled"`
			Interval   time.Duration `koanf:"interval"`
			Delay      time.Duration `koanf:"delay"`
			AutoRemove time.Duration `koanf:"auto_remove"`
			Leaders    bool          `koanf:"leaders"`
			// LeadersDelay is how long no node must have come or gone before leaders are spread.
			LeadersDelay time.Duration `koanf:"leaders_delay"`
		} `koanf:"reconcile"`
	} `koanf:"cluster"`
	Listen struct {
		Client     string `koanf:"client"`
		AMQP       string `koanf:"amqp"`
		AMQPS      string `koanf:"amqps"`
		Peer       string `koanf:"peer"`
		Gossip     string `koanf:"gossip"`
		HTTP       string `koanf:"http"`
		Management string `koanf:"management"`
		Debug      string `koanf:"debug"`
	} `koanf:"listen"`
	HTTP struct {
		TLS              bool   `koanf:"tls"`
		MetricsTokenFile string `koanf:"metrics_token_file"`
	} `koanf:"http"`
	Advertise struct {
		Host   string `koanf:"host"`
		Gossip string `koanf:"gossip"`
	} `koanf:"advertise"`
	TLS struct {
		MinVersion   string   `koanf:"min_version"`
		CipherSuites []string `koanf:"cipher_suites"`
		Peer         TLSFiles `koanf:"peer"`
		Client       TLSFiles `koanf:"client"`
	} `koanf:"tls"`
	Auth struct {
		Mode                string   `koanf:"mode"`
		DefaultUser         string   `koanf:"default_user"`
		DefaultPassword     string   `koanf:"default_password"`
		DefaultPasswordFile string   `koanf:"default_password_file"`
		LoopbackUsers       []string `koanf:"loopback_users"`
		// Backends are asked in this order at a login; Cache and Timeout apply to all but internal.
		Backends []string      `koanf:"backends"`
		Cache    time.Duration `koanf:"cache"`
		Timeout  time.Duration `koanf:"timeout"`
		OAuth2   OAuth2        `koanf:"oauth2"`
		LDAP     LDAP          `koanf:"ldap"`
	} `koanf:"auth"`
	Definitions struct {
		File            string `koanf:"file"`
		SkipIfUnchanged bool   `koanf:"skip_if_unchanged"`
	} `koanf:"definitions"`
	Log struct {
		Level  string `koanf:"level"`
		Format string `koanf:"format"`
	} `koanf:"log"`
	Limits struct {
		MaxMessageBytes int   `koanf:"max_message_bytes"`
		BodyCacheBytes  int64 `koanf:"body_cache_bytes"`
		PublishWindow   int   `koanf:"publish_window"`
		ExportFloor     int64 `koanf:"export_floor_bytes"`
		MemoryHigh      int64 `koanf:"memory_high"`
		// DeliveryBufferBytes applies to each AMQP connection or consume stream.
		DeliveryBufferBytes int64 `koanf:"delivery_buffer_bytes"`
		// Connections bounds all clients' connections, Unauthenticated those that have not logged in.
		Connections               int `koanf:"connections"`
		Unauthenticated           int `koanf:"unauthenticated"`
		UnauthenticatedPerAddress int `koanf:"unauthenticated_per_address"`
		// Incoming bounds the bytes of incomplete messages: of the node, and of each AMQP connection.
		IncomingBytes           int64 `koanf:"incoming_bytes"`
		IncomingConnectionBytes int64 `koanf:"incoming_connection_bytes"`
		// OutgoingBytes bounds the answers of the node that clients have not read.
		OutgoingBytes int64 `koanf:"outgoing_bytes"`
	} `koanf:"limits"`
	Queue struct {
		RelaxedTypeCheck bool `koanf:"relaxed_type_check"`
	} `koanf:"queue"`
	Timeouts struct {
		Confirm time.Duration `koanf:"confirm"`
		Command time.Duration `koanf:"command"`
		Suspect time.Duration `koanf:"suspect"`
		// CatalogStaleness is the maximum age of a node's view of the catalog for the node to report that
		// something does not exist.
		CatalogStaleness time.Duration `koanf:"catalog_staleness"`
		Hibernate        time.Duration `koanf:"hibernate"`
		Drain            time.Duration `koanf:"drain"`
		DiskHang         time.Duration `koanf:"disk_hang"`
		// ClockSkew is twice the difference up to which wall clocks count as agreeing.
		ClockSkew time.Duration `koanf:"clock_skew"`
		// Connections is how long a node must be silent before its clients' connections count as ended.
		Connections time.Duration `koanf:"connections"`
		Login       time.Duration `koanf:"login"`
		// Incoming is the time from basic.publish to the end of the body.
		Incoming time.Duration `koanf:"incoming"`
	} `koanf:"timeouts"`
}

const (
	maxExpect       = 7
	maxMessageBytes = 30 << 20 // with its headers below the largest command of a group, 32 MiB
)

// Validate returns all faults at once, by the names of the settings.
func (c *Config) Validate() error {
	var errs []error
	fault := func(key string, value any, remedy string) {
		errs = append(errs, fmt.Errorf("config: %s is %v: %s", key, value, remedy))
	}
	for key, value := range map[string]string{"node_id": c.NodeID, "cluster.name": c.Cluster.Name} {
		if value == "" || len(value) > 255 || strings.ContainsAny(value, " /\\\t\n") {
			fault(key, strconv.Quote(value), "use 1 to 255 characters without spaces and slashes")
		}
	}
	if c.DataDir == "" {
		fault("data_dir", `""`, "name a directory")
	}
	if c.Cluster.Expect < 1 || c.Cluster.Expect > maxExpect {
		fault("cluster.expect", c.Cluster.Expect, fmt.Sprintf("use 1 to %d, the same on every node", maxExpect))
	}
	addresses := map[string]string{
		"listen.client": c.Listen.Client, "listen.peer": c.Listen.Peer, "listen.gossip": c.Listen.Gossip, "listen.http": c.Listen.HTTP,
	}
	for i, j := range c.Cluster.Join {
		addresses[fmt.Sprintf("cluster.join[%d]", i)] = j
	}
	for key, value := range map[string]string{"listen.amqp": c.AMQP(), "listen.amqps": c.AMQPS(), "listen.management": c.Listen.Management, "listen.debug": c.Listen.Debug} {
		if value != "" {
			addresses[key] = value
		}
	}
	for key, value := range addresses {
		if _, port, err := net.SplitHostPort(value); err != nil {
			fault(key, strconv.Quote(value), "use host:port, for example 0.0.0.0:7070")
		} else if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			fault(key, strconv.Quote(value), "the port must be a number from 1 to 65535")
		}
	}
	for key, host := range map[string]string{"advertise.host": c.Advertise.Host, "advertise.gossip": c.Advertise.Gossip} {
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			fault(key, strconv.Quote(host), "use a host name or an IP address, without a port")
		}
	}
	for _, err := range []error{c.checkClientAuth(), c.checkLoginFrom()} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	if f := c.Cluster.Finalize; f != FinalizeAuto && f != FinalizeManual {
		fault("cluster.finalize", strconv.Quote(f), "use auto or manual")
	}
	if _, err := c.Level(); err != nil {
		fault("log.level", strconv.Quote(c.Log.Level), "use debug, info, warn or error")
	}
	if f := c.Log.Format; f != "auto" && f != "text" && f != "json" {
		fault("log.format", strconv.Quote(f), "use auto, text or json")
	}
	errs = append(errs, c.validateAdmission()...)
	errs = append(errs, c.validateAuth()...)
	errs = append(errs, c.validateTLS()...)
	errs = append(errs, c.validateCiphers()...)
	errs = append(errs, c.validateNumbers()...)
	return errors.Join(errs...)
}

// validateAdmission demands a key where unauthenticated clients could gossip: a peer that gossips can announce nodes
// that do not exist and, without TLS, impersonate those that do.
func (c *Config) validateAdmission() []error {
	switch c.Cluster.Admission {
	case "open":
		return nil
	case "key":
	default:
		return []error{fmt.Errorf("config: cluster.admission is %q: use key or open", c.Cluster.Admission)}
	}
	if c.Cluster.GossipKeyFile != "" {
		return nil
	}
	for _, l := range []struct{ key, address string }{{"listen.gossip", c.Listen.Gossip}, {"listen.peer", c.Listen.Peer}} {
		host, _, err := net.SplitHostPort(l.address)
		if err != nil || host == "localhost" || net.ParseIP(host).IsLoopback() {
			continue // another fault, or only this host reaches it
		}
		return []error{fmt.Errorf("config: cluster.gossip_key_file is \"\" and %s is %s, which is reachable from other hosts: "+
			"name a file made with `head -c 32 /dev/urandom | base64`, the same on every node, or set cluster.admission to open to try things out",
			l.key, l.address)}
	}
	return nil
}

// validateNumbers checks all numbers and durations and returns every fault. A setting whose 0 has a
// meaning of its own is checked only where it is not 0.
func (c *Config) validateNumbers() []error {
	var errs []error
	bounds := func(key string, value, low, high int64, unit string) {
		if value < low || value > high {
			errs = append(errs, fmt.Errorf("config: %s is %d: use %d to %d %s", key, value, low, high, unit))
		}
	}
	bounds("limits.max_message_bytes", int64(c.Limits.MaxMessageBytes), 1, maxMessageBytes, "bytes")
	bounds("storage.disk_low", c.Storage.DiskLow, 0, 1<<50, "bytes")
	bounds("storage.disk_floor", c.Storage.DiskFloor, 0, 1<<50, "bytes")
	if low := c.Storage.DiskLow; low > 0 && c.Storage.DiskFloor > low {
		errs = append(errs, fmt.Errorf("config: storage.disk_floor is %d: use at most storage.disk_low, %d", c.Storage.DiskFloor, low))
	}
	if c.Limits.BodyCacheBytes != 0 { // 0: derived from the memory limit
		bounds("limits.body_cache_bytes", c.Limits.BodyCacheBytes, 1<<20, 1<<40, "bytes")
	}
	bounds("limits.delivery_buffer_bytes", c.Limits.DeliveryBufferBytes, 64<<10, 1<<40, "bytes")
	bounds("limits.connections", int64(c.Limits.Connections), 1, 1<<20, "connections")
	bounds("limits.unauthenticated", int64(c.Limits.Unauthenticated), 1, 1<<20, "connections")
	bounds("limits.unauthenticated_per_address", int64(c.Limits.UnauthenticatedPerAddress), 0, 1<<20, "connections")
	if c.Limits.IncomingBytes != 0 { // 0: derived from the memory limit
		bounds("limits.incoming_bytes", c.Limits.IncomingBytes, 1<<20, 1<<40, "bytes")
	}
	if c.Limits.OutgoingBytes != 0 {
		bounds("limits.outgoing_bytes", c.Limits.OutgoingBytes, 1<<20, 1<<40, "bytes")
	}
	if c.Limits.IncomingConnectionBytes != 0 {
		bounds("limits.incoming_connection_bytes", c.Limits.IncomingConnectionBytes, int64(c.Limits.MaxMessageBytes)+amqp.IncomingSlack, 1<<40,
			"bytes, room for a message of limits.max_message_bytes")
	}
	bounds("limits.memory_high", c.Limits.MemoryHigh, 0, 1<<50, "bytes")
	bounds("limits.export_floor_bytes", c.Limits.ExportFloor, 1<<20, 1<<40, "bytes per second")
	bounds("limits.publish_window", int64(c.Limits.PublishWindow), 1, 1<<20, "messages")
	durations := func(key string, value, low, high time.Duration) {
		if value < low || value > high {
			errs = append(errs, fmt.Errorf("config: %s is %v: use %v to %v", key, value, low, high))
		}
	}
	durations("auth.cache", c.Auth.Cache, 0, time.Hour)
	durations("auth.timeout", c.Auth.Timeout, 100*time.Millisecond, time.Minute)
	durations("cluster.reconcile.interval", c.Cluster.Reconcile.Interval, time.Minute, 7*24*time.Hour)
	durations("cluster.reconcile.delay", c.Cluster.Reconcile.Delay, 100*time.Millisecond, time.Hour)
	durations("cluster.reconcile.auto_remove", c.Cluster.Reconcile.AutoRemove, 0, 365*24*time.Hour)
	durations("cluster.reconcile.leaders_delay", c.Cluster.Reconcile.LeadersDelay, 100*time.Millisecond, time.Hour)
	if c.Cluster.ReplaceLostAfter != 0 {
		durations("cluster.replace_lost_after", c.Cluster.ReplaceLostAfter, time.Minute, 30*24*time.Hour)
	}
	durations("timeouts.confirm", c.Timeouts.Confirm, 0, 24*time.Hour)
	durations("timeouts.command", c.Timeouts.Command, 100*time.Millisecond, time.Hour)
	durations("timeouts.suspect", c.Timeouts.Suspect, 200*time.Millisecond, time.Minute)
	durations("timeouts.catalog_staleness", c.Timeouts.CatalogStaleness, 500*time.Millisecond, time.Minute)
	durations("timeouts.clock_skew", c.Timeouts.ClockSkew, clock.MinLimit, clock.MaxLimit)
	if c.Timeouts.Hibernate != 0 {
		durations("timeouts.hibernate", c.Timeouts.Hibernate, time.Second, 30*24*time.Hour)
	}
	durations("timeouts.drain", c.Timeouts.Drain, time.Second, time.Hour)
	durations("timeouts.connections", c.Timeouts.Connections, time.Second, time.Hour)
	durations("timeouts.login", c.Timeouts.Login, time.Second, time.Hour)
	durations("timeouts.incoming", c.Timeouts.Incoming, time.Second, 24*time.Hour)
	durations("timeouts.disk_hang", c.Timeouts.DiskHang, 3*time.Second, time.Hour)
	return errs
}

// Values of cluster.finalize.
const (
	FinalizeAuto   = "auto"
	FinalizeManual = "manual"
)

// Level returns the log level.
func (c *Config) Level() (slog.Level, error) {
	var l slog.Level
	err := l.UnmarshalText([]byte(c.Log.Level))
	return l, err
}

// ReadDefinitions reads the document to import; nil without one.
func (c *Config) ReadDefinitions() ([]byte, error) {
	if c.Definitions.File == "" {
		return nil, nil
	}
	document, err := os.ReadFile(c.Definitions.File)
	if err != nil {
		return nil, fmt.Errorf("config: definitions.file: %w: name a file that user %d may read", err, os.Getuid())
	}
	return document, nil
}

// GossipKey reads the key file; nil without one.
func (c *Config) GossipKey() ([]byte, error) {
	name := c.Cluster.GossipKeyFile
	if name == "" {
		return nil, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("config: cluster.gossip_key_file: %w: name a file that user %d may read", err, os.Getuid())
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("config: cluster.gossip_key_file %s is not base64 (%w): make one with `head -c 32 /dev/urandom | base64`", name, err)
	}
	if n := len(key); n != 16 && n != 24 && n != 32 {
		return nil, fmt.Errorf("config: cluster.gossip_key_file %s holds %d bytes: 16, 24 or 32 are needed, make one with `head -c 32 /dev/urandom | base64`", name, n)
	}
	return key, nil
}

// Reachable returns the address at which others reach a listener.
func (c *Config) Reachable(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("config: address %q: %w", listen, err)
	}
	if c.Advertise.Host != "" {
		host = c.Advertise.Host
	} else if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		if host, err = firstIP(); err != nil {
			return "", err
		}
	}
	return net.JoinHostPort(host, port), nil
}

// ReachableGossip returns the address at which others reach the gossip listener. Gossip carries IP
// addresses: where a name lags behind, as a pod's does, advertise.gossip can give one.
func (c *Config) ReachableGossip() (string, error) {
	gossip := *c
	gossip.Advertise.Host = cmp.Or(c.Advertise.Gossip, c.Advertise.Host)
	return gossip.Reachable(c.Listen.Gossip)
}

// firstIP returns an address of this host that others may reach: the first of IPv4, else the first
// of IPv6.
func firstIP() (string, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("config: cannot list this host's addresses (%w): set advertise.host", err)
	}
	best := ""
	for _, a := range addresses {
		n, ok := a.(*net.IPNet)
		if !ok || n.IP.IsLoopback() || n.IP.IsLinkLocalUnicast() {
			continue
		}
		if n.IP.To4() != nil {
			return n.IP.String(), nil
		}
		if best == "" {
			best = n.IP.String()
		}
	}
	if best == "" {
		return "", errors.New("config: this host has no address but loopback: set advertise.host")
	}
	return best, nil
}
