// Package archtest holds the table of the project's packages and who may import whom,
// and the tests that keep the code, docs/architecture.md and docs/dependencies.md
// equal to it.
//
// The tests parse the source files themselves: the result of a test that asks the go
// command is cached by names of files it never opened, and a violation slips through.
// Only files that are part of a build are judged, not _test.go files: a test may wire
// what it needs, and the compiler still refuses cycles.
package archtest

// Package is a row of the table.
type Package struct {
	// Path is relative to the module. A path that ends in "/..." stands for the package and all below
	// it; these may import one another.
	Path string
	// Imports are the project's packages that it may import; "any" is all of them.
	Imports []string
	// ThirdParty are names from Modules; "any" is every module of go.mod.
	ThirdParty []string
	// Pure packages only compute: of the standard library they may import only PureStd.
	Pure bool
}

// Table returns a row for every package, including planned ones. A new package or a new arrow needs
// a line here and in docs/architecture.md §2.
func Table() []Package {
	return []Package{
		{Path: "."},
		{Path: "id", Pure: true},
		{Path: "message", Pure: true},
		{Path: "clock", Pure: true, Imports: []string{"id"}},
		{Path: "quorumq", Pure: true, Imports: []string{"id"}},
		{Path: "backup", Pure: true, Imports: []string{"id", "quorumq"}},
		{Path: "quorumq/session", Pure: true, Imports: []string{"id", "quorumq"}},
		{Path: "argument", Pure: true, Imports: []string{"message", "quorumq"}},
		{Path: "catalog", Pure: true, Imports: []string{"id", "message", "argument"}},
		{Path: "quota", Pure: true},
		{Path: "definitions", Pure: true, Imports: []string{"id", "message", "argument", "catalog"}},
		{Path: "amqp/wire", Pure: true, Imports: []string{"message"}},
		{Path: "cluster/placement", Pure: true, Imports: []string{"id"}},
		{Path: "wal/vfs", ThirdParty: []string{"sys"}},
		{Path: "wal", Imports: []string{"id", "wal/vfs", "internal/latency", "internal/phase", "internal/wait"}, ThirdParty: []string{"raft"}},
		{
			Path: "raftfsm", Imports: []string{"id", "clock", "wal", "internal/wait"},
			ThirdParty: []string{"raft", "raft-boltdb", "bbolt", "hclog"},
		},
		{Path: "cluster/gossip", Imports: []string{"id", "internal/gate", "internal/wait"}, ThirdParty: []string{"memberlist"}},
		{Path: "cluster/certificate", Imports: []string{"id"}},
		{Path: "cluster/frame", Imports: []string{"id", "proto/node/v1", "internal/grpcmem"}, ThirdParty: []string{"grpc", "protobuf", "raft"}},
		{
			Path: "cluster/pulse", Imports: []string{"id", "clock", "proto/node/v1", "internal/phase", "internal/wait"},
			ThirdParty: []string{"protobuf", "sys"},
		},
		{
			Path: "cluster/transport", Imports: []string{"id", "cluster/certificate", "cluster/frame", "cluster/pulse", "proto/node/v1", "internal/grpcmem", "internal/phase", "internal/gate", "internal/wait"},
			ThirdParty: []string{"grpc", "raft"},
		},
		{
			Path: "cluster/liveness", Imports: []string{"id", "cluster/pulse", "proto/node/v1", "internal/phase", "internal/wait"},
			ThirdParty: []string{"raft"},
		},
		{Path: "cluster/operation", Imports: []string{"id"}},
		{Path: "cluster/datadir/sealed"},
		{Path: "cluster/datadir", Imports: []string{"id", "cluster/datadir/sealed", "raftfsm", "wal", "wal/vfs"}},
		{Path: "cluster/event", Imports: []string{"id", "catalog"}},
		{Path: "cluster/export", Imports: []string{"internal/latency", "internal/wait"}},
		{Path: "cluster/clients", Imports: []string{"id", "catalog", "internal/wait"}},
		{Path: "cluster/storage", Imports: []string{"id", "cluster/datadir", "raftfsm", "wal", "wal/vfs"}},
		{Path: "cluster/nodeclock", Imports: []string{"id", "clock", "cluster/event", "internal/wait"}},
		{Path: "cluster/traffic", Imports: []string{"quorumq"}},
		{Path: "cluster/vitals", Imports: []string{"proto/node/v1", "internal/latency"}},
		{
			Path: "cluster/metadata", Imports: []string{
				"id", "clock", "catalog", "cluster/gossip", "cluster/transport", "cluster/liveness", "cluster/datadir", "cluster/storage",
				"cluster/nodeclock", "cluster/traffic", "raftfsm", "proto/node/v1", "internal/phase", "internal/wait",
			},
			ThirdParty: []string{"grpc"},
		},
		{Path: "tracing", Imports: []string{"message", "internal/lograte"}, ThirdParty: []string{"otel"}},
		{Path: "policy", Imports: []string{"id", "message", "argument", "quorumq", "catalog", "internal/nearest", "internal/pattern"}},
		{Path: "deadletter", Imports: []string{"id", "message", "quorumq", "catalog", "internal/wait", "tracing"}},
		{Path: "cluster/recovery", Imports: []string{"id", "catalog", "cluster/datadir", "cluster/storage", "cluster/metadata", "quorumq", "raftfsm", "wal"}},
		{Path: "cluster/disk", Imports: []string{"id", "catalog", "wal", "proto/node/v1", "internal/phase", "internal/wait"}},
		{
			Path: "cluster/gateway", Imports: []string{
				"id", "quorumq", "quorumq/session", "catalog", "raftfsm", "proto/node/v1", "cluster/transport", "cluster/disk", "cluster/metadata", "cluster/traffic", "internal/latency",
			},
			ThirdParty: []string{"protobuf"},
		},
		{Path: "cluster/replica/machine", Imports: []string{"id", "quorumq", "cluster/metadata", "raftfsm"}},
		{Path: "cluster/replica/mailbox"},
		{Path: "cluster/replica/presence", Imports: []string{"id", "cluster/transport"}},
		{Path: "cluster/replica/timer", Imports: []string{"id", "quorumq", "internal/wait"}},
		{
			Path: "cluster/replica", Imports: []string{
				"id", "message", "quorumq", "backup", "catalog", "policy", "deadletter", "cluster/transport", "cluster/liveness", "cluster/datadir", "cluster/datadir/sealed",
				"cluster/storage", "cluster/nodeclock", "cluster/event", "cluster/export", "cluster/traffic", "cluster/metadata", "cluster/disk", "cluster/replica/machine", "cluster/replica/mailbox", "cluster/replica/presence", "cluster/replica/timer", "raftfsm", "wal", "proto/node/v1", "internal/each", "internal/wait",
			},
			ThirdParty: []string{"protobuf", "raft"},
		},
		{Path: "cluster/forwarding", Imports: []string{
			"id", "quorumq", "catalog", "policy", "deadletter", "cluster/event", "cluster/metadata", "cluster/traffic", "cluster/gateway",
		}},
		{Path: "cluster/peer", Imports: []string{"id", "catalog", "cluster/operation", "cluster/event", "cluster/clients", "cluster/traffic", "proto/node/v1", "internal/logtail"}, ThirdParty: []string{"grpc"}},
		{
			Path: "cluster/leader", Imports: []string{"id", "message", "quorumq", "catalog", "cluster/traffic", "cluster/forwarding", "proto/node/v1", "internal/wait"},
			ThirdParty: []string{"grpc"},
		},
		{Path: "cluster/membership", Imports: []string{
			"id", "catalog", "policy", "raftfsm", "proto/node/v1", "cluster/placement", "cluster/operation", "cluster/event", "cluster/metadata", "cluster/disk",
			"cluster/replica", "cluster/traffic", "cluster/peer", "cluster/leader", "internal/each", "internal/wait",
		}},
		{
			Path: "cluster", Imports: []string{
				"id", "message", "clock", "quorumq", "catalog", "policy", "deadletter", "cluster/gossip", "cluster/transport", "cluster/datadir", "cluster/datadir/sealed",
				"cluster/clients", "cluster/traffic", "cluster/gateway", "cluster/forwarding", "cluster/liveness", "cluster/operation", "cluster/event", "cluster/export", "raftfsm", "wal", "wal/vfs", "proto/node/v1", "internal/phase", "internal/gate", "internal/logtail", "internal/wait",
				"cluster/storage", "cluster/nodeclock", "cluster/metadata", "cluster/disk", "cluster/replica", "cluster/peer", "cluster/leader", "cluster/membership", "cluster/vitals", "internal/latency", "tracing",
			},
			ThirdParty: []string{"grpc"},
		},
		{Path: "access"},
		{Path: "access/ldap", Imports: []string{"access"}, ThirdParty: []string{"ldap", "asn1-ber"}},
		{Path: "access/oauth2", Imports: []string{"access", "internal/wait"}, ThirdParty: []string{"jwt"}},
		{Path: "broker/failure", Imports: []string{"message", "argument", "catalog", "cluster", "cluster/traffic", "cluster/operation", "cluster/disk", "cluster/metadata", "cluster/peer"}},
		{Path: "broker/names", Imports: []string{"catalog", "broker/failure"}},
		{Path: "broker/serving", Imports: []string{"catalog", "cluster", "cluster/clients", "broker/failure"}},
		{Path: "broker/audit", Imports: []string{"id", "message", "catalog", "cluster/event", "cluster/traffic", "broker/failure", "internal/lograte"}},
		{Path: "broker/identity", Imports: []string{"id", "access", "catalog", "broker/failure", "broker/audit", "internal/password"}},
		{Path: "broker/permission", Imports: []string{"access", "catalog", "broker/failure", "broker/identity", "internal/lograte", "internal/pattern", "broker/names"}},
		{Path: "broker/administration", Imports: []string{"message", "catalog", "policy", "broker/failure", "broker/serving", "broker/audit", "broker/identity", "broker/permission", "internal/password", "internal/pattern", "broker/names"}},
		{Path: "broker/settletoken", Imports: []string{"id", "catalog", "quorumq", "cluster/gateway", "cluster/traffic", "broker/failure", "broker/serving", "broker/audit", "broker/identity", "broker/permission", "broker/administration"}},
		{Path: "broker/limits", Imports: []string{"id", "catalog", "policy", "quota", "cluster/clients", "cluster/peer", "cluster/event", "broker/failure", "broker/serving", "broker/identity", "broker/permission", "broker/administration", "internal/wait"}},
		{Path: "broker/imports", Imports: []string{"message", "argument", "catalog", "policy", "definitions", "cluster", "broker/failure", "broker/names", "broker/serving", "broker/audit", "broker/identity", "broker/administration", "internal/password"}},
		{Path: "broker/backups", Imports: []string{"id", "message", "backup", "catalog", "quorumq", "cluster", "cluster/traffic", "cluster/gateway", "broker/failure", "broker/serving"}},
		{Path: "broker/watch", Imports: []string{"id", "cluster/event", "cluster/peer", "broker/failure", "broker/names", "broker/serving", "broker/audit", "broker/identity", "broker/permission", "broker/limits"}},
		{Path: "broker/connections", Imports: []string{"id", "catalog", "policy", "cluster/clients", "cluster/peer", "broker/failure", "broker/serving", "broker/audit", "broker/identity", "broker/permission", "broker/limits"}},
		{Path: "broker/operators", Imports: []string{"id", "cluster/peer", "catalog", "cluster", "cluster/clients", "cluster/vitals", "cluster/traffic", "cluster/operation", "cluster/nodeclock", "cluster/disk", "broker/failure", "broker/serving", "broker/audit", "cluster/metadata", "cluster/membership"}},
		{Path: "broker/queues", Imports: []string{"id", "message", "catalog", "policy", "quorumq", "cluster", "cluster/forwarding", "cluster/gateway", "cluster/leader", "broker/failure", "broker/names", "broker/serving", "broker/permission", "broker/connections"}},
		{Path: "broker/messages", Imports: []string{"id", "message", "catalog", "quorumq", "deadletter", "cluster", "cluster/gateway", "cluster/leader", "cluster/operation", "cluster/traffic", "broker/failure", "broker/serving", "broker/identity", "broker/permission", "broker/operators", "broker/queues", "internal/wait"}},
		{Path: "broker/explain", Imports: []string{"id", "message", "argument", "catalog", "policy", "quorumq", "deadletter", "cluster", "cluster/gateway", "cluster/leader", "broker/failure", "broker/serving", "broker/permission", "broker/queues", "broker/messages"}},
		{Path: "broker", Imports: []string{
			"id", "message", "access", "argument", "catalog", "policy", "quorumq", "cluster", "cluster/clients", "cluster/traffic", "cluster/gateway", "cluster/event",
			"internal/wait", "internal/lograte", "cluster/metadata", "cluster/leader", "cluster/disk", "cluster/peer",
			"broker/failure", "broker/serving", "broker/audit", "broker/identity", "broker/permission", "broker/administration", "broker/connections", "broker/operators", "broker/limits", "broker/settletoken", "broker/names", "broker/imports", "broker/backups", "broker/watch", "broker/queues", "broker/messages", "broker/explain", "tracing",
		}},
		{Path: "amqp", Imports: []string{"id", "amqp/wire", "broker", "broker/failure", "broker/audit", "broker/identity", "broker/connections", "message", "internal/gate", "internal/incoming", "internal/wait", "broker/limits", "broker/names"}},
		{Path: "management/stats", Imports: []string{"broker", "broker/connections", "broker/identity", "broker/operators", "broker/queues"}},
		{
			Path: "grpcapi", Imports: []string{"id", "broker", "broker/failure", "broker/audit", "broker/identity", "broker/administration", "broker/connections", "broker/operators", "message", "proto/broker/v1", "internal/gate", "internal/grpcmem", "internal/incoming", "internal/logtail", "internal/wait", "broker/limits", "broker/names", "broker/imports", "broker/backups", "broker/watch", "broker/queues", "broker/messages", "broker/explain", "management/stats"},
			ThirdParty: []string{"grpc", "protobuf", "genproto"},
		},
		{Path: "management/slot"},
		{Path: "management/login", Imports: []string{"broker", "broker/audit", "broker/identity", "internal/gate"}},
		{Path: "management/rest", Imports: []string{"message", "broker", "broker/failure", "broker/names", "broker/audit", "broker/identity", "broker/administration", "broker/connections", "broker/imports", "broker/limits", "broker/operators", "broker/permission", "broker/watch", "broker/queues", "broker/messages", "broker/explain", "management/login", "management/slot", "management/stats", "internal/logtail", "internal/majority", "internal/password"}},
		{Path: "management/page", Imports: []string{"broker/identity", "management/login", "management/slot"}},
		{Path: "management/admintest"},
		{Path: "management/browsertest"},
		{Path: "management", Imports: []string{"broker", "management/login", "management/page", "management/rest", "management/stats"}},
		{Path: "metrics", Imports: []string{"quorumq", "wal", "internal/gate", "internal/latency"}, ThirdParty: []string{"prometheus"}},
		{Path: "client", Imports: []string{"proto/broker/v1", "internal/grpcmem", "internal/wait"}, ThirdParty: []string{"grpc", "protobuf", "genproto"}},
		{Path: "backup/archive", Imports: []string{"backup"}, ThirdParty: []string{"age", "minio", "sys"}},
		{Path: "backup/online", Imports: []string{"backup", "backup/archive", "client"}},
		{Path: "proto/broker/v1", ThirdParty: []string{"grpc", "protobuf", "genproto"}},
		{Path: "proto/node/v1", ThirdParty: []string{"grpc", "protobuf"}},
		{Path: "cmd/node/...", Imports: []string{"any"}, ThirdParty: []string{"any"}},
		{Path: "cmd/ctl/...", Imports: []string{".", "client", "backup/archive", "backup/online", "chaos/command", "internal/checks", "internal/manual"}, ThirdParty: []string{"any"}},
		{
			Path: "cmd/quickstart", Imports: []string{".", "id", "client", "cluster/certificate", "chaos", "chaos/check", "chaos/history", "chaos/workload", "examples/recipes", "internal/authority", "internal/wait"},
			ThirdParty: []string{"any"},
		},
		{Path: "cmd/waldump", Imports: []string{".", "id", "message", "quorumq", "wal", "wal/vfs"}},
		{Path: "chaos", Imports: []string{"internal/loopback"}},
		{Path: "chaos/history"},
		{Path: "chaos/check", Imports: []string{"chaos/history"}, ThirdParty: []string{"porcupine"}},
		{Path: "chaos/target", Imports: []string{"client"}},
		{Path: "chaos/target/local", Imports: []string{"chaos", "chaos/target", "client"}},
		{Path: "chaos/target/netns", Imports: []string{"chaos", "chaos/target", "chaos/target/local", "internal/wait"}},
		{Path: "chaos/target/remote", Imports: []string{"chaos/target", "client", "internal/wait"}},
		{Path: "chaos/target/k8s", Imports: []string{"chaos/target", "chaos/target/remote", "client", "internal/loopback", "internal/wait"}},
		{Path: "chaos/target/ssh", Imports: []string{"chaos/target", "chaos/target/remote", "internal/wait"}},
		{Path: "chaos/target/docker", Imports: []string{"chaos/target", "chaos/target/remote"}},
		{Path: "chaos/fault", Imports: []string{"chaos/target", "client", "internal/each", "internal/wait"}},
		{Path: "chaos/workload", Imports: []string{"chaos/history", "chaos/target", "client", "internal/wait"}, ThirdParty: []string{"amqp091"}},
		{Path: "chaos/report", Imports: []string{"chaos/check", "chaos/history"}},
		{Path: "chaos/run", Imports: []string{"chaos/check", "chaos/fault", "chaos/history", "chaos/report", "chaos/target", "chaos/workload", "client", "internal/each", "internal/wait"}},
		{Path: "chaos/command", Imports: []string{"chaos", "chaos/check", "chaos/fault", "chaos/history", "chaos/run", "chaos/target", "chaos/target/docker", "chaos/target/k8s", "chaos/target/local", "chaos/target/netns", "chaos/target/remote", "chaos/target/ssh", "chaos/workload", "internal/wait"}},
		{Path: "deploy/helm"},
		{Path: "deploy/image"},
		{Path: "deploy/release"},
		{Path: "examples/recipes/...", Imports: []string{"client"}},
		{Path: "internal/archtest"},
		{Path: "internal/attack"},
		{Path: "internal/authority"},
		{Path: "client/clienttest", Imports: []string{"client", "internal/testcluster"}},
		{Path: "internal/cases", Imports: []string{"client", "chaos", "proto/broker/v1"}, ThirdParty: []string{"grpc"}},
		{Path: "internal/cases/report"},
		{Path: "internal/checks", Imports: []string{"client", "internal/majority"}},
		{Path: "internal/collector", ThirdParty: []string{"grpc", "otlp"}},
		{Path: "internal/each"},
		{Path: "internal/fuzzall"},
		{Path: "internal/gate", Imports: []string{"internal/lograte"}},
		{Path: "internal/gobuild"},
		{Path: "internal/groupsim", Imports: []string{"id", "raftfsm", "wal", "wal/vfs"}, ThirdParty: []string{"raft"}},
		{Path: "internal/grpcmem", ThirdParty: []string{"grpc", "protobuf"}},
		{Path: "internal/incoming"},
		{Path: "internal/issuer", ThirdParty: []string{"jwt"}},
		{Path: "internal/k8slike"},
		{Path: "internal/latency"},
		{Path: "internal/lograte"},
		{Path: "internal/manual", ThirdParty: []string{"cobra"}},
		{Path: "internal/logtail"},
		{Path: "internal/loopback"},
		{Path: "internal/majority", Pure: true},
		{Path: "internal/mutants", Imports: []string{"chaos/check", "chaos/history", "chaos/run"}},
		{Path: "internal/nearest"},
		{Path: "internal/nodesim", Imports: []string{"id", "message", "clock", "catalog", "quorumq", "wal/vfs", "cluster", "cluster/gateway", "cluster/nodeclock", "cluster/traffic", "internal/loopback"}},
		{Path: "internal/password", ThirdParty: []string{"crypto"}},
		{Path: "internal/pattern", ThirdParty: []string{"regexp2"}},
		{Path: "internal/phase"},
		{Path: "internal/publicroots"},
		{Path: "internal/retest"},
		{Path: "internal/runbooks"},
		{Path: "internal/sim", Imports: []string{"id", "message", "clock", "quorumq", "quorumq/session", "catalog", "deadletter"}},
		{Path: "internal/storesim", Imports: []string{"id", "catalog", "cluster/metadata"}},
		{Path: "internal/stress"},
		{Path: "internal/testnode", Imports: []string{"cluster"}},
		{Path: "internal/testcluster", Imports: []string{"id", "clock", "access", "access/oauth2", "amqp", "broker", "cluster", "cluster/certificate", "cluster/datadir", "cluster/membership", "grpcapi", "internal/authority", "internal/incoming", "internal/logtail", "internal/loopback", "raftfsm", "wal", "cluster/nodeclock", "tracing"}},
		{Path: "internal/tlsfiles"},
		{Path: "internal/transcript"},
		{Path: "internal/upgrade", Imports: []string{"internal/gobuild"}},
		{Path: "internal/wait"},
	}
}

// Modules maps the names in the table and the document to module paths; a path matches its
// subpackages and later major versions too.
func Modules() map[string]string {
	return map[string]string{
		"otel":        "go.opentelemetry.io/otel",
		"otlp":        "go.opentelemetry.io/proto/otlp",
		"raft":        "github.com/hashicorp/raft",
		"amqp091":     "github.com/rabbitmq/amqp091-go",
		"raft-boltdb": "github.com/hashicorp/raft-boltdb",
		"bbolt":       "go.etcd.io/bbolt",
		"crypto":      "golang.org/x/crypto",
		"hclog":       "github.com/hashicorp/go-hclog",
		"jwt":         "github.com/golang-jwt/jwt",
		"ldap":        "github.com/go-ldap/ldap",
		"asn1-ber":    "github.com/go-asn1-ber/asn1-ber",
		"memberlist":  "github.com/hashicorp/memberlist",
		"porcupine":   "github.com/anishathalye/porcupine",
		"cobra":       "github.com/spf13/cobra",
		"prometheus":  "github.com/prometheus/client_golang",
		"age":         "filippo.io/age",
		"minio":       "github.com/minio/minio-go/v7",
		"regexp2":     "github.com/dlclark/regexp2",
		"sys":         "golang.org/x/sys",
		"grpc":        "google.golang.org/grpc",
		"protobuf":    "google.golang.org/protobuf",
		"genproto":    "google.golang.org/genproto",
	}
}

// PureStd is what a pure package may import of the standard library: no files, sockets, locks or
// randomness. Of package time it may use only types and constants.
func PureStd() []string {
	return []string{
		"bytes", "cmp", "container/heap", "encoding/binary", "encoding/json", "errors", "fmt", "hash", "hash/crc32", "io", "iter",
		"maps", "math", "math/bits", "slices", "sort", "strconv", "strings", "time", "unicode", "unicode/utf8",
	}
}

// Clock is what a pure package may not use of package time: all that reads a clock or waits. Pure
// packages take the time as a parameter.
func Clock() []string {
	return []string{
		"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Timer", "Ticker", "Local",
	}
}
