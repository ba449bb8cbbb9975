package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/access"
	"github.com/quorate/quorate/access/oauth2"
	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/clock"
	"github.com/quorate/quorate/cluster/export"
	"github.com/quorate/quorate/internal/gate"
	"github.com/quorate/quorate/internal/nearest"
)

// Key is one setting. Its name is the same in the file (nested at dots), as a flag
// (--name) and in the environment: QUORATE_ + upper case, `__` for a dot.
type Key struct {
	Name    string
	Default any // string, bool, int, time.Duration or []string
	Help    string
}

// Keys returns every setting with its default.
func Keys() []Key {
	return []Key{
		{"node_id", "", "name of this node, unique in the cluster and never changed; empty: the host's name"},
		{"data_dir", "/var/lib/quorate", "directory of all data of this node; only one process may use it at a time"},
		{"storage.disk_low", 0, "free bytes of the data directory's disk below which the node hands its leaders over and counts as unable to take messages; 0: 1 GiB, or a twentieth of the disk if that is less, but at least 128 MiB or a quarter of it"},
		{"storage.disk_floor", 0, "free bytes below which the node gives up its reserve, and without it stops its members of queues until there is room again; 0: 256 MiB, or a quarter of what 0 means for storage.disk_low if that is less"},
		{"cluster.name", "quorate", "name of the cluster; nodes with another name are refused"},
		{"cluster.expect", 3, "number of nodes that found the cluster at its very first start; the same on every node"},
		{"cluster.join", []string{}, "gossip addresses of other nodes, host:port; names are resolved periodically"},
		{"cluster.gossip_key_file", "", "file with 16, 24 or 32 bytes in base64 that encrypt gossip and admit peers; empty: none"},
		{"cluster.admission", "key", "which peers may gossip and connect to listen.peer: key, those that have the cluster's key, which may be absent on loopback only; or open, anyone that reaches the ports, for trying out"},
		{"cluster.finalize", FinalizeAuto, "when an upgrade is completed, after which older builds are refused: auto, as soon as all nodes run the newer build; or manual, by `quoratectl upgrade finalize`, if at least one node has this setting"},
		{"cluster.replace_lost_after", time.Duration(0), "a node that lost its disk, and has asked to join with an empty data directory for this long, is admitted automatically if every queue and the catalog has a majority without it; 0: never, see `quoratectl nodes replace`"},
		{"cluster.reconcile.enabled", true, "give queues the members that they should have automatically, and rebuild lost members"},
		{"cluster.reconcile.interval", time.Hour, "interval between checks of all queues"},
		{"cluster.reconcile.delay", 10 * time.Second, "how long a node must have been present or absent before members move"},
		{"cluster.reconcile.auto_remove", time.Duration(0), "a node that was not seen for this long is lost for good, and other nodes take its place; 0: never"},
		{"cluster.reconcile.leaders", true, "spread leaders automatically when they have piled up on some nodes"},
		{"cluster.reconcile.leaders_delay", 30 * time.Second, "how long no node must have come or gone before leaders are spread"},
		{"listen.client", "0.0.0.0:7070", "gRPC for clients"},
		{"listen.amqp", "", "AMQP 0-9-1 for clients, without TLS; empty: 0.0.0.0:5672, or none if tls.client is set; off: none"},
		{"listen.amqps", "", "AMQP 0-9-1 with the TLS of tls.client; empty: 0.0.0.0:5671 if that is set; off: none"},
		{"listen.peer", "0.0.0.0:7071", "gRPC between nodes"},
		{"listen.gossip", "0.0.0.0:7072", "gossip between nodes, TCP and UDP"},
		{"listen.http", "0.0.0.0:7073", "health probes: /health/startup, /health/live, /health/ready; metrics: /metrics, /metrics/queues"},
		{"listen.management", "", "the HTTP API and the web page, with the TLS of tls.client, for example 0.0.0.0:15672; empty: none"},
		{"listen.debug", "", "Go's profiles at /debug/pprof/, without a login, for example 127.0.0.1:6060; empty: none"},
		{"http.tls", false, "use TLS on listen.http with the certificate of tls.client; it asks clients for no certificate, so that probes and scrapers need none"},
		{"http.metrics_token_file", "", "file with a token of at least 16 characters that requests for /metrics/queues, which shows names of queues, must send as `authorization: Bearer`; empty: no token is needed"},
		{"advertise.host", "", "host at which others reach this node; empty: the listener's host, or the first IP address that is not loopback"},
		{"advertise.gossip", "", "host at which others reach this node's gossip, best an IP address; empty: as advertise.host"},
		{"tls.min_version", "1.2", "lowest version of TLS for clients, on all listeners: 1.2 or 1.3; nodes speak 1.3 with each other"},
		{"tls.cipher_suites", []string{}, "cipher suites of TLS 1.2 for clients, by their names in Go, for example TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256; empty: those that Go considers safe; those of TLS 1.3 are all safe and cannot be chosen"},
		{"tls.peer.cert", "", "PEM file with this node's certificate for other nodes; empty: no TLS between nodes"},
		{"tls.peer.key", "", "PEM file with its key"},
		{"tls.peer.ca", "", "PEM file with the authorities of all nodes' certificates"},
		{"tls.client.cert", "", "PEM file with this node's certificate for clients; empty: no TLS for clients"},
		{"tls.client.key", "", "PEM file with its key"},
		{"tls.client.ca", "", "PEM file with the authorities of clients' certificates; if set, clients need one, unless tls.client.auth says otherwise"},
		{"tls.client.auth", "", "whether clients present a certificate of tls.client.ca: none, optional (a certificate that is presented must be valid) or required; empty: required if tls.client.ca is set, else none"},
		{"tls.client.login_from", "", "part of a client's certificate that names the user for AMQP's mechanism EXTERNAL: common_name, san_dns, san_email or san_uri; empty: certificates do not log in"},
		{"auth.mode", "password", "password: clients log in; none: anyone may do anything, with listen.client on loopback only, for trying out"},
		{"auth.default_user", "guest", "administrator that a new cluster is founded with, whatever users definitions.file has; guest only if that has none"},
		{"auth.default_password", "guest", "its password when the cluster is founded"},
		{"auth.default_password_file", "", "file with that password; empty: auth.default_password applies"},
		{"auth.backends", []string{"internal"}, "backends that are asked at a login, in this order, until one accepts: internal, the users of the cluster; oauth2, the tokens of an issuer; ldap, the users of a directory"},
		{"auth.cache", access.DefaultCache, "how long the answers of other backends than internal are remembered, but not beyond a token's end; 0: not at all"},
		{"auth.timeout", access.DefaultTimeout, "how long such a backend may take before it counts as unable to decide"},
		{"auth.oauth2.issuer", "", "URL of the token issuer, exactly as in the claim iss; its keys are found by OpenID Connect discovery"},
		{"auth.oauth2.jwks_url", "", "URL of the issuer's keys, if they are not to be discovered; without auth.oauth2.issuer, tokens of any issuer whose key is there are accepted"},
		{"auth.oauth2.resource_server_id", "", "name of this cluster among the services of the issuer, for example quorate"},
		{"auth.oauth2.audience", "", "value that a token's claim aud must contain; empty: auth.oauth2.resource_server_id"},
		{"auth.oauth2.scope_prefix", "", "prefix of scopes that are meant for this cluster; empty: auth.oauth2.resource_server_id and a dot"},
		{"auth.oauth2.additional_scopes_key", []string{}, "claims besides scope that hold scopes; a dot leads into an object, as in realm_access.roles"},
		{"auth.oauth2.scope_aliases", []string{}, "scopes that stand for others, each as ALIAS=SCOPE; an ALIAS may occur more than once"},
		{"auth.oauth2.username_claims", []string{"sub", "client_id"}, "claims that may name the user; the first one in a token counts"},
		{"auth.oauth2.algorithms", []string{}, "algorithms that signatures may have; empty: RS, PS and ES with 256, 384 and 512, and EdDSA; there are no others"},
		{"auth.oauth2.leeway", oauth2.DefaultLeeway, "how far the issuer's clock may differ; tokens stay valid that much longer"},
		{"auth.oauth2.refresh", oauth2.DefaultRefresh, "how often the issuer's keys are fetched; an unknown key causes a fetch at once, at most every 10s"},
		{"auth.oauth2.ca", "", "PEM file with the authorities of the issuer's certificate, read at the start; empty: those of the operating system"},
		{"auth.ldap.servers", []string{}, "directories that are asked in turn until one answers: ldaps://HOST or ldap://HOST, with a port if need be"},
		{"auth.ldap.start_tls", false, "start TLS on ldap:// before anything else is sent"},
		{"auth.ldap.ca", "", "PEM file with the authorities of the directories' certificates, read at the start; empty: those of the operating system"},
		{"auth.ldap.user_dn_pattern", "", "name of a user's entry, with ${username} for the user's name; empty: it is looked up"},
		{"auth.ldap.dn_lookup_base", "", "entry below which users' entries are looked up"},
		{"auth.ldap.dn_lookup_attribute", "", "attribute that has the user's name there, for example uid or sAMAccountName"},
		{"auth.ldap.dn_lookup_bind_dn", "", "entry to bind as for searches; empty: anonymous, and for groups the user"},
		{"auth.ldap.dn_lookup_bind_password_file", "", "file with its password"},
		{"auth.ldap.group_base", "", "entry below which groups are searched; empty: no groups, so that users have no rights"},
		{"auth.ldap.group_member_attribute", "member", "attribute of a group that has its users' entries"},
		{"auth.ldap.group_name_attribute", "cn", "attribute that names a group"},
		{"auth.ldap.groups", []string{}, "scopes that groups grant, each as GROUP=SCOPE with scopes like those of oauth2 without a prefix; a GROUP may occur more than once"},
		{"auth.loopback_users", []string{"guest"}, "users that may log in only from the nodes' own hosts"},
		{"definitions.file", "", "JSON document to import when the node starts, in the format of definitions export or of RabbitMQ; empty: none"},
		{"definitions.skip_if_unchanged", true, "skip the import if the cluster imported the same document last; otherwise every start creates again what was deleted since"},
		{"log.level", "info", "debug, info, warn or error"},
		{"log.format", "auto", "text, json, or auto: coloured on a terminal, else text; json has durations as numbers of seconds, under keys that end in `_seconds`"},
		{"limits.max_message_bytes", 16 << 20, "largest body of a message"},
		{"limits.body_cache_bytes", 0, "recent message bodies kept in memory, for 5 to 10 s after they were used, fewer while memory is short; 0: 256 MiB, or an eighth of GOMEMLIMIT if that is less"},
		{"limits.publish_window", 16384, "unanswered messages to one queue, before publishers are held back"},
		{"limits.export_floor_bytes", export.DefaultFloor, "bytes per second that backups may read from this node in any case; above that it reads for them only as fast as clients do not feel it"},
		{"limits.delivery_buffer_bytes", 16 << 20, "bytes of deliveries that may wait on this node for one AMQP connection, or one consume stream of gRPC, to take them"},
		{"limits.connections", gate.DefaultMaxConnections, "connections of clients to this node, over all its ports for them; one more is closed at once"},
		{"limits.unauthenticated", gate.DefaultMaxUnauthenticated, "how many of these may be without a login; the one that has been silent longest gives way to the next"},
		{"limits.unauthenticated_per_address", 0, "the same from one address, of IPv4 or a /64 of IPv6; 0: a quarter of limits.unauthenticated"},
		{"limits.incoming_bytes", 0, "bytes that incomplete incoming messages may hold on this node, over AMQP and gRPC together; beyond it others wait. Over gRPC, where messages above 64 KiB count, a user may have half of it and a connection a quarter; 0: 256 MiB, or an eighth of GOMEMLIMIT if that is less"},
		{"limits.incoming_connection_bytes", 0, "the same for each AMQP connection, which is closed beyond it; 0: 128 MiB, or half of limits.incoming_bytes if that is less, but always room for the largest message"},
		{"limits.outgoing_bytes", 0, "bytes of large answers, above 64 KiB, to single calls over gRPC that clients have not read, of which a user may have half and a connection a quarter; calls beyond it wait for 5 s, and are then refused; 0: 256 MiB, or an eighth of GOMEMLIMIT if that is less"},
		{"limits.memory_high", 0, "bytes of memory in use above which this node holds publishers back; 0: three quarters of GOMEMLIMIT, never if there is no limit"},
		{"queue.relaxed_type_check", false, "an existing queue may be redeclared as quorum or classic, whatever its type; the same on every node"},
		{"timeouts.confirm", 60 * time.Second, "time after which a publish to a queue without a leader is given up; 0: never"},
		{"timeouts.command", 5 * time.Second, "time after which any other call on a queue without a leader fails"},
		{"timeouts.catalog_staleness", 5 * time.Second, "maximum age of a node's view of the catalog for the node to report that a queue does not exist, or to confirm a message that no queue takes; if it is older: UNAVAILABLE"},
		{"timeouts.suspect", 400 * time.Millisecond, "time after which a node that does not answer is lost, and the queues that it led, and the catalog, elect other leaders"},
		{"timeouts.clock_skew", clock.DefaultLimit, "maximum time by which anything expires too early, whatever wall clocks show; clocks agree if they differ by no more than half of it; the same on every node"},
		{"timeouts.hibernate", time.Minute, "time after which an unused queue without consumers is closed on all its nodes until it is used again, up to four times as long if it was used again soon the last times; 0: never; the same on every node"},
		{"timeouts.connections", 10 * time.Second, "time after which clients' connections to a node that does not answer count as ended, and their exclusive queues are deleted"},
		{"timeouts.login", gate.DefaultLoginTimeout, "time after which a connection without a login is closed"},
		{"timeouts.incoming", amqp.DefaultIncomingTimeout, "time after which the channel of an incomplete AMQP message is closed, not counting the time for which the node holds its connection back"},
		{"timeouts.drain", 60 * time.Second, "maximum time to move leadership away before the node stops"},
		{"timeouts.disk_hang", 10 * time.Second, "time after which the process ends with code 75 because a write to the disk does not return; its leaders are silent after 0.45 to 1.5 s"},
	}
}

// envPrefix is the prefix of all variables that are settings.
const envPrefix = "QUORATE_"

// foreign are variables with the same prefix that belong to quoratectl.
func foreign(name string) bool {
	switch name {
	case "QUORATE_ADDRESSES", "QUORATE_USER", "QUORATE_PASSWORD", "QUORATE_TOKEN":
		return true
	}
	return false
}

// Env returns the variable of a key.
func (k Key) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "__"))
}

// Secret reports whether the value must not be shown.
func (k Key) Secret() bool { return k.Name == "auth.default_password" }

// Live reports whether a running node takes the setting over; others apply from its next start.
func (k Key) Live() bool { return slices.Contains(Live(), k.Name) }

// Type names what values the setting takes.
func (k Key) Type() string {
	switch k.Default.(type) {
	case bool:
		return "true or false"
	case int:
		return "whole number"
	case time.Duration:
		return "duration, such as 500ms or 1h"
	case []string:
		return "list"
	default:
		return "text"
	}
}

// Find returns the settings with the name, or below it: all of timeouts, for example. If there is no such setting,
// the error names the nearest one.
func Find(name string) ([]Key, error) {
	var below []Key
	for _, k := range Keys() {
		if k.Name == name || strings.HasPrefix(k.Name, name+".") {
			below = append(below, k)
		}
	}
	if len(below) > 0 {
		return below, nil
	}
	_, err := find(name, "argument")
	return nil, err
}

// gone are settings of older versions, with advice.
func gone() map[string]string {
	return map[string]string{
		"limits.receive_bytes": `use "limits.incoming_bytes" instead`,
		"storage.queue_log":    "since 0.10 all queues keep their log in the node's shared log: remove the line; if it was bolt, first follow docs/operations.md, \"Queues in bolt\"",
	}
}

// find returns the key of a name, or an error that suggests the nearest name.
func find(name, where string) (Key, error) {
	all := Keys()
	known := make([]string, len(all))
	for i, k := range all {
		if known[i] = k.Name; k.Name == name {
			return k, nil
		}
	}
	if became, was := gone()[name]; was {
		return Key{}, fmt.Errorf("config: %s: there is no setting %q any more: %s", where, name, became)
	}
	best := nearest.Name(name, known)
	if best == "" {
		return Key{}, fmt.Errorf("config: %s: there is no setting %q: see docs/configuration.md", where, name)
	}
	return Key{}, fmt.Errorf("config: %s: there is no setting %q: did you mean %q?", where, name, best)
}
