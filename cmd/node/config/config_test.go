package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestLayers(t *testing.T) {
	file := write(t, "node_id: from-file\ncluster:\n  admission: open\n  name: file\n  join: [a:1]\ntimeouts:\n  drain: 5s\n")
	flags := pflag.NewFlagSet("node", pflag.ContinueOnError)
	AddFlags(flags)
	flags.String("config", "", "")
	if err := flags.Parse([]string{"--node_id", "from-flag", "--config", file}); err != nil {
		t.Fatal(err)
	}
	env := []string{"QUORATE_NODE_ID=from-env", "QUORATE_CLUSTER__JOIN=b:2,c:3", "QUORATE_ADDRESSES=x", "PATH=/bin"}
	c, err := Load(file, env, flags)
	if err != nil {
		t.Fatal(err)
	}
	if c.NodeID != "from-flag" || c.Cluster.Name != "file" || c.Timeouts.Drain != 5*time.Second || c.Cluster.Expect != 3 {
		t.Errorf("%+v", c)
	}
	if want := []string{"b:2", "c:3"}; !slices.Equal(c.Cluster.Join, want) {
		t.Errorf("join %q, want %q", c.Cluster.Join, want)
	}
}

func TestFaults(t *testing.T) {
	tests := map[string]struct {
		file string
		env  []string
		want []string
	}{
		"unknown names": {
			file: "listen:\n  clients: 1.2.3.4:5\n", env: []string{"QUORATE_NODEID=x"},
			want: []string{`"listen.clients": did you mean "listen.client"`, `QUORATE_NODEID: there is no setting "nodeid": did you mean "node_id"`},
		},
		"settings of old": {
			file: "storage:\n  queue_log: shared\n", env: []string{"QUORATE_STORAGE__QUEUE_LOG=bolt"},
			want: []string{`node.yaml: there is no setting "storage.queue_log" any more`, `QUORATE_STORAGE__QUEUE_LOG: there is no setting "storage.queue_log" any more`, "remove the line"},
		},
		"a name that was": {
			file: "limits:\n  receive_bytes: 1\n", env: []string{"QUORATE_LIMITS__RECEIVE_BYTES=1"},
			want: []string{`node.yaml: there is no setting "limits.receive_bytes" any more: use "limits.incoming_bytes" instead`, "QUORATE_LIMITS__RECEIVE_BYTES: there is no"},
		},
		"all at once": {
			file: "node_id: a b\ncluster:\n  expect: 0\n  join: [nobody]\nlisten:\n  http: x:99999\nlog:\n  level: loud\n  format: xml\nlimits:\n  max_message_bytes: 0\ntimeouts:\n  command: 1ms\n",
			want: []string{"node_id", "cluster.expect is 0", `cluster.join[0] is "nobody"`, "listen.http", "log.level", "log.format", "limits.max_message_bytes", "timeouts.command"},
		},
		"wrong types": {
			file: "cluster:\n  reconcile:\n    enabled: 2\n  expect: three\n  name: [a, b]\ntimeouts:\n  drain: 5\n", env: []string{"QUORATE_TIMEOUTS__CONFIRM=5 parsecs"},
			want: []string{
				"cluster.reconcile.enabled is 2: want true or false",
				`cluster.expect is "three": want a whole number`, "cluster.name is [a b]: want a text",
				"timeouts.drain is 5: want a duration, for example 1m0s", `timeouts.confirm is "5 parsecs": want a duration, for example 1m0s`,
			},
		},
		"no YAML": {file: "a: [", want: []string{"node.yaml"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Load(write(t, test.file), test.env, nil)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error lacks %q:\n%v", want, err)
				}
			}
		})
	}
}

func TestGossipKey(t *testing.T) {
	for text, want := range map[string]string{
		"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n": "",
		"AAAA": "holds 3 bytes",
		"%%%%": "is not base64",
	} {
		c := Config{}
		c.Cluster.GossipKeyFile = write(t, text)
		key, err := c.GossipKey()
		if want == "" && (err != nil || len(key) != 32) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %d bytes, error %v", text, len(key), err)
		}
	}
}

// Where unauthenticated clients could gossip there is a key, unless somebody says that it may be open.
func TestAdmission(t *testing.T) {
	const here, there = "listen:\n  gossip: 127.0.0.1:1\n  peer: \"[::1]:2\"\n", "listen:\n  gossip: localhost:1\n  peer: 10.0.0.1:2\n"
	for text, want := range map[string]string{
		here:  "",
		there: "listen.peer is 10.0.0.1:2, which is reachable from other hosts",
		"":    "listen.gossip is 0.0.0.0:7072",
		there + "cluster:\n  gossip_key_file: x\n":          "",
		there + "cluster:\n  admission: open\n":             "",
		here + "cluster:\n  admission: everybody\n":         `cluster.admission is "everybody"`,
		"listen:\n  gossip: node.example:1\n  peer: \"\"\n": "listen.gossip is node.example:1",
	} {
		_, err := Load(write(t, text), nil, nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestReachable(t *testing.T) {
	c := Config{}
	if a, err := c.Reachable("127.0.0.1:7070"); err != nil || a != "127.0.0.1:7070" {
		t.Errorf("%s, %v", a, err)
	}
	c.Advertise.Host = "n-0.svc"
	if a, err := c.Reachable("0.0.0.0:7070"); err != nil || a != "n-0.svc:7070" {
		t.Errorf("%s, %v", a, err)
	}
	c.Listen.Gossip = "0.0.0.0:7072"
	for gossip, want := range map[string]string{"": "n-0.svc:7072", "10.1.2.3": "10.1.2.3:7072", "fd00::3": "[fd00::3]:7072"} {
		c.Advertise.Gossip = gossip
		if a, err := c.ReachableGossip(); err != nil || a != want {
			t.Errorf("gossip at %s, %v, want %s", a, err, want)
		}
	}
}

// The document lists every setting with its variable and default.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range Keys() {
		if !strings.Contains(string(text), "`"+k.Name+"`") || !strings.Contains(string(text), k.Env()) {
			t.Errorf("docs/configuration.md lacks %s (%s)", k.Name, k.Env())
		}
	}
}

// The help names the kind of a value behind its flag, not a word of the explanation.
func TestFlagsHelp(t *testing.T) {
	flags := pflag.NewFlagSet("node", pflag.ContinueOnError)
	AddFlags(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		if kind, _ := pflag.UnquoteUsage(f); strings.ContainsAny(kind, " _") {
			t.Errorf("--%s %s", f.Name, kind)
		}
	})
}
