package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/access"
	"github.com/quorate/quorate/access/oauth2"
	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/clock"
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
		{"node_id", "", "name of this node, unique in the cluster and permanent; empty: the host's name"},
		{"data_dir", "/var/lib/quorate", "directory of everything that this node stores; one process at a time"},
		{"storage.disk_low", 0, "free bytes of the data directory's disk below which the node hands its leaders over and counts as having no room; 0: 1 GiB, or a twentieth of the disk if that is less, but at least 128 MiB or a quarter of it"},
		{"storage.disk_floor", 0, "free bytes below which the node gives up its reserve, and without a reserve stops its members of queues until there is room again; 0: 256 MiB, or a quarter of what 0 means for storage.disk_low if that is less"},
		{"cluster.name", "quorate", "name of the cluster; nodes with another name are refused"},
		{"cluster.expect", 3, "number of nodes that found the cluster together at its very first start; the same on every node"},
		{"cluster.join", []string{}, "gossip addresses of other nodes, host:port; names are resolved again for each try"},
		{"cluster.gossip_key_file", "", "file with 16, 24 or 32 bytes in base64 that encrypt gossip and admit peers; empty: none"},
		{"cluster.admission", "key", "who may gossip and connect to listen.peer: key, nodes with the cluster's key, which may be missing only on loopback; or open, anyone who reaches the ports, for trying things out"},
		{"cluster.finalize", FinalizeAuto, "when an upgrade ends, after which older builds are refused: auto, as soon as all nodes run the newer build; or manual, by `quoratectl cluster finalize`, if at least one node says so"},
		{"cluster.replace_lost_after", time.Duration(0), "a node that has lost its disk, and asks to join with an empty data directory for this long, is admitted automatically if every queue and the catalog have a majority without it; 0: never, see `quoratectl nodes replace`; at least 1m"},
		{"cluster.reconcile.enabled", true, "queues get missing members automatically, and lost members are rebuilt"},
		{"cluster.reconcile.interval", time.Hour, "time between two checks of all queues"},
		{"cluster.reconcile.delay", 10 * time.Second, "how long a node must have joined or left before members move"},
		{"cluster.reconcile.auto_remove", time.Duration(0), "a node that is not seen for this long counts as lost for good, and others replace it in its queues; 0: never"},
		{"cluster.reconcile.leaders", true, "leaders that have piled up on some nodes are spread automatically"},
		{"cluster.reconcile.leaders_delay", 30 * time.Second, "how long no node must have joined or left before leaders are spread"},
		{"listen.client", "0.0.0.0:7070", "gRPC for clients"},
		{"listen.amqp", "", "AMQP 0-9-1 for clients, without TLS; empty: 0.0.0.0:5672, or none if tls.client is set; off: none"},
		{"listen.amqps", "", "AMQP 0-9-1 with the TLS of tls.client; empty: 0.0.0.0:5671 if that is set; off: none"},
		{"listen.peer", "0.0.0.0:7071", "gRPC between nodes"},
		{"listen.gossip", "0.0.0.0:7072", "gossip between nodes, TCP and UDP"},
		{"listen.http", "0.0.0.0:7073", "health: /health/startup, /health/live, /health/ready; metrics: /metrics, /metrics/queues"},
		{"listen.management", "", "parts of RabbitMQ's HTTP API, with the TLS of tls.client, for example 0.0.0.0:15672; empty: none"},
		{"listen.debug", "", "Go's profiles at /debug/pprof/, without a login, for example 127.0.0.1:6060; empty: none"},
		{"http.tls", false, "listen.http uses TLS with the certificate of tls.client; it asks for no client certificates, so probes and scrapers need none"},
		{"http.metrics_token_file", "", "file with a token of at least 16 characters, which a request for /metrics/queues on listen.http must have as `authorization: Bearer`, because that page has the names of queues; empty: no token is needed"},
		{"advertise.host", "", "host at which others reach this node; empty: the listener's, or the first IP address that is not loopback. If a node's host is a name, other nodes first call it at the address of its gossip, with the port of listen.peer"},
		{"advertise.gossip", "", "host at which others reach this node's gossip, best an IP address; empty: as advertise.host. With a name the node waits up to 15 s until that resolves to this machine"},
		{"tls.min_version", "1.2", "lowest version of TLS for clients, on all listeners: 1.2 or 1.3; nodes use 1.3 with each other"},
		{"tls.cipher_suites", []string{}, "cipher suites of TLS 1.2 for clients, by their names in Go, for example TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256; empty: those that Go considers secure. Those of TLS 1.3 are all secure and cannot be chosen"},
		{"tls.peer.cert", "", "PEM file with this node's certificate for other nodes; empty: no TLS between nodes"},
		{"tls.peer.key", "", "PEM file with its key"},
		{"tls.peer.ca", "", "PEM file with the authorities of all nodes' certificates"},
		{"tls.client.cert", "", "PEM file with this node's certificate for clients; empty: no TLS for clients"},
		{"tls.client.key", "", "PEM file with its key"},
		{"tls.client.ca", "", "PEM file with the authorities of clients' certificates; if set, clients need one, unless tls.client.auth says otherwise"},
		{"tls.client.auth", "", "whether clients present a certificate of tls.client.ca: none, optional (a presented certificate must be valid) or required; empty: required if there is a tls.client.ca, else none"},
		{"tls.client.login_from", "", "part of a client's certificate that names the user for AMQP's mechanism EXTERNAL: common_name, san_dns, san_email or san_uri; empty: certificates do not log in"},
		{"auth.mode", "password", "password: clients log in; none: everyone may do everything, with listen.client on loopback only, for trying things out"},
		{"auth.default_user", "guest", "first administrator of a new cluster"},
		{"auth.default_password", "guest", "its password at the founding"},
		{"auth.default_password_file", "", "file with that password; empty: auth.default_password is used"},
		{"auth.backends", []string{"internal"}, "backends that authenticate logins, asked in this order until one accepts: internal, the users of the cluster; oauth2, the tokens of an issuer; ldap, the users of a directory"},
		{"auth.cache", access.DefaultCache, "how long answers of backends other than internal are cached, but not beyond a token's end; 0: not at all"},
		{"auth.timeout", access.DefaultTimeout, "how long such a backend may take before it counts as not answering"},
		{"auth.oauth2.issuer", "", "URL of the issuer of tokens, exactly as in the claim iss; its keys are found by OpenID Connect's discovery"},
		{"auth.oauth2.jwks_url", "", "URL of the issuer's keys, if they are not to be discovered; without auth.oauth2.issuer, tokens of any issuer whose key is there are accepted"},
		{"auth.oauth2.resource_server_id", "", "name of this cluster among the services of the issuer, for example quorate"},
		{"auth.oauth2.audience", "", "value that a token's claim aud must have; empty: auth.oauth2.resource_server_id"},
		{"auth.oauth2.scope_prefix", "", "prefix of scopes for this cluster; empty: auth.oauth2.resource_server_id and a dot"},
		{"auth.oauth2.additional_scopes_key", []string{}, "claims besides scope that hold scopes; a dot leads into an object, as in realm_access.roles"},
		{"auth.oauth2.scope_aliases", []string{}, "scopes that stand for others, each as ALIAS=SCOPE; one ALIAS may appear several times"},
		{"auth.oauth2.username_claims", []string{"sub", "client_id"}, "claims that may name the user; the first one in the token is used"},
		{"auth.oauth2.algorithms", []string{}, "permitted signature algorithms; empty: RS, PS and ES with 256, 384 and 512, and EdDSA; there are no others"},
		{"auth.oauth2.leeway", oauth2.DefaultLeeway, "how far the issuer's clock may be off; tokens last that much longer"},
		{"auth.oauth2.refresh", oauth2.DefaultRefresh, "how often the issuer's keys are fetched; an unknown key causes a fetch at once, at most every 10s"},
		{"auth.oauth2.ca", "", "PEM file with the authorities of the issuer's certificate, read at the start; empty: those of the operating system"},
		{"auth.ldap.servers", []string{}, "directories, asked in turn until one answers: ldaps://HOST or ldap://HOST, with an optional port"},
		{"auth.ldap.start_tls", false, "begin TLS on ldap:// before anything else"},
		{"auth.ldap.ca", "", "PEM file with the authorities of the directories' certificates, read at the start; empty: those of the operating system"},
		{"auth.ldap.user_dn_pattern", "", "name of a user's entry, with ${username} for the user's name; empty: it is looked up"},
		{"auth.ldap.dn_lookup_base", "", "entry below which users are looked up"},
		{"auth.ldap.dn_lookup_attribute", "", "attribute with the user's name there, for example uid or sAMAccountName"},
		{"auth.ldap.dn_lookup_bind_dn", "", "entry to bind as for searches; empty: anonymous, and for groups the user"},
		{"auth.ldap.dn_lookup_bind_password_file", "", "file with its password"},
		{"auth.ldap.group_base", "", "entry below which groups are; empty: there are none, and users have no rights"},
		{"auth.ldap.group_member_attribute", "member", "attribute of a group that has its users' entries"},
		{"auth.ldap.group_name_attribute", "cn", "attribute that names a group"},
		{"auth.ldap.groups", []string{}, "rights of groups, each as GROUP=SCOPE with scopes as those of oauth2 without a prefix; one GROUP may appear several times"},
		{"auth.loopback_users", []string{"guest"}, "users that may log in only from the nodes' own hosts"},
		{"definitions.file", "", "JSON document that is imported when the node starts, as written by `definitions export` or RabbitMQ; empty: none"},
		{"definitions.skip_if_unchanged", true, "skip the import if the cluster's last import was the same document; otherwise objects that were deleted meanwhile are created again at every start"},
		{"log.level", "info", "debug, info, warn or error"},
		{"log.format", "auto", "text, json, or auto: coloured on a terminal, else text; json has durations as numbers of seconds, under keys that end in `_seconds`"},
		{"limits.max_message_bytes", 16 << 20, "largest body of a message"},
		{"limits.body_cache_bytes", 0, "cache of recent message bodies, smaller while memory is short; 0: 256 MiB, or an eighth of GOMEMLIMIT if that is less"},
		{"limits.publish_window", 16384, "unanswered messages to one queue before publishers are held back"},
		{"limits.delivery_buffer_bytes", 16 << 20, "bytes of deliveries that may wait on this node for one AMQP connection, or one gRPC consume stream, to read them"},
		{"limits.connections", gate.DefaultMaxConnections, "client connections to this node, over all its client ports; one more is closed at once"},
		{"limits.unauthenticated", gate.DefaultMaxUnauthenticated, "how many of these may not have logged in; a new one replaces the one that has been silent for the longest time"},
		{"limits.unauthenticated_per_address", 0, "the same from one address, of IPv4 or a /64 of IPv6; 0: a quarter of limits.unauthenticated"},
		{"limits.incoming_bytes", 0, "bytes of incomplete incoming messages on this node, over AMQP and gRPC together; beyond it others wait. Over gRPC only messages above 64 KiB count, and one user gets at most half, one connection a quarter; 0: 256 MiB, or an eighth of GOMEMLIMIT if that is less"},
		{"limits.incoming_connection_bytes", 0, "the same for each AMQP connection, which is closed beyond it; 0: 128 MiB, or half of limits.incoming_bytes if that is less, but room for the largest message"},
		{"limits.memory_high", 0, "bytes of memory in use above which this node holds publishers back; 0: three quarters of GOMEMLIMIT, or never without a limit"},
		{"queue.relaxed_type_check", false, "an existing queue may be redeclared as quorum or classic, whichever it is; the same on every node"},
		{"timeouts.confirm", 60 * time.Second, "queue without a leader: a publish fails after this; 0: never"},
		{"timeouts.command", 5 * time.Second, "queue without a leader: any other call fails after this"},
		{"timeouts.catalog_staleness", 5 * time.Second, "how old a node's view of the catalog may be when the node answers that a queue does not exist, or confirms a message that is routed to no queue; with an older view the answer is UNAVAILABLE. A value below the duration of a catalog election, 1 to 2 s, makes such answers fail during one"},
		{"timeouts.suspect", 400 * time.Millisecond, "a node that does not answer for this long is lost, and the queues that it led, and the catalog, elect other leaders; while nodes are overloaded and answer late anyway, up to 2 s longer"},
		{"timeouts.clock_skew", clock.DefaultLimit, "nothing expires early by more than this, whatever wall clocks show; clocks agree if they differ by at most half of it; 50ms to 10s; the same on every node"},
		{"timeouts.hibernate", time.Duration(0), "a queue without consumers that is not used for this long is closed on all its nodes until someone uses it; 0: never; the same on every node"},
		{"timeouts.connections", 10 * time.Second, "clients' connections to a node that does not answer for this long count as ended, and their exclusive queues are deleted"},
		{"timeouts.login", gate.DefaultLoginTimeout, "a connection that has not logged in for this long is closed"},
		{"timeouts.incoming", amqp.DefaultIncomingTimeout, "the channel of an AMQP message that is still incomplete after this is closed; time for which the node holds the connection back does not count"},
		{"timeouts.drain", 60 * time.Second, "time for moving leadership away before the node stops"},
		{"timeouts.disk_hang", 10 * time.Second, "the process ends with code 75 if a write to the disk has not returned after this; its leaders fall silent after 0.45 to 1.5 s"},
	}
}

// envPrefix begins the names of all variables that are settings.
const envPrefix = "QUORATE_"

// foreign are variables that begin the same and belong to quoratectl.
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

// gone are settings that older versions had, and what became of them.
func gone() map[string]string {
	return map[string]string{
		"limits.receive_bytes": `use "limits.incoming_bytes" in its place`,
		"storage.queue_log":    "all queues keep their log in the node's one log since 0.10: take the line out, after docs/operations.md, \"Queues in bolt\", if it said bolt",
	}
}

// find returns the key of this name, or an error that names the nearest one.
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
