package rest_test

import (
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/management/login"
	"github.com/quorate/quorate/management/rest"
	"github.com/quorate/quorate/management/stats"
)

// whole is the configuration of the first node that knows all about itself: it listens on ports 5672 and
// 7071, its certificate ends in 40 days, and it has 3 of 4 connections.
func whole(c *testcluster.Cluster) rest.Config {
	b := c.Broker(0)
	return rest.Config{
		Broker: b, Guard: login.New(b), Stats: stats.New(stats.Config{Broker: b}), Node: c.Name(0), Version: "1.2.3", Cluster: "blue", Logger: slog.New(slog.DiscardHandler),
		Facts: rest.Facts{
			Listeners: func() []rest.Listener {
				return []rest.Listener{{Protocol: "amqp", Port: 5672}, {Protocol: "grpc/ssl", Port: 7071}}
			},
			Certificates: func() map[string]time.Time {
				return map[string]time.Time{"client": time.Now().Add(40 * 24 * time.Hour)}
			},
			Settings:    func() map[string]any { return map[string]any{"log.level": "info"} },
			Connections: func() (open, most int) { return 3, 4 },
			Expected:    func() int { return 1 },
		},
	}
}

// on serves a handler of node i, which has the users of addUsers.
func on(t *testing.T, h http.Handler, c *testcluster.Cluster, i int) api {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	addUsers(t, c.Broker(i))
	return api{t: t, base: s.URL, b: c.Broker(i)}
}

// one is a cluster of one node.
func one(t *testing.T) (api, *testcluster.Cluster) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	return on(t, rest.New(whole(c)), c, 0), c
}

// placeholder is a part of a path that stands for a value.
var placeholder = regexp.MustCompile(`\{[^}]*\}`)

// unaudited are routes that need no record although their method is not GET: they change nothing,
// do what clients do with messages all the time, or record what they do themselves.
func unaudited() []string {
	return []string{
		"POST /api/login", "DELETE /api/login", "POST /api/auth/hash_password", "PUT /api/cluster-name", "POST /v1/exchanges/{vhost}/{name}/explain",
		"POST /v1/policies/{vhost}/{name}/preview", "POST /v1/operator-policies/{vhost}/{name}/preview",
		"POST /v1/queues/{vhost}/{name}/dead-letters/explain", "POST /api/queues/{vhost}/{name}/actions",
		"PUT /api/parameters/{component}/{vhost}/{name}", "POST /api/queues/{vhost}/{name}/get", "POST /api/exchanges/{vhost}/{name}/publish",
	}
}

// No route is open by mistake: without a login each answers 401 but those of openPaths, and to a user without its tag 403.
// Each that changes something describes it for the audit (AU-1).
func TestEveryRouteAsksForLoginAndTag(t *testing.T) {
	a, _ := one(t)
	for _, r := range rest.Routes() {
		do := r.Method + " " + placeholder.ReplaceAllString(strings.TrimSuffix(r.Path, "{$}"), "1")
		if want := slices.Contains(openPaths(), r.Path) && r.Method != http.MethodDelete; r.Open != want {
			t.Errorf("%s is open: %v, want %v", do, r.Open, want)
		}
		if r.Open && r.Tag == "" {
			continue
		}
		var rows []row
		switch r.Tag {
		case "":
			rows = []row{{who: "worker", do: do, code: http.StatusNoContent}}
		case identity.TagManagement:
			rows = []row{{who: "worker", do: do, code: http.StatusForbidden, want: has(`"error":"not_authorized"`)}}
		default:
			rows = []row{{who: "worker", do: do, code: http.StatusForbidden}, {who: "manager", do: do, code: http.StatusForbidden}}
		}
		if !r.Open {
			rows = append(rows, row{who: "nobody", do: do, code: http.StatusUnauthorized, want: has(`"error":"not_authorized"`)})
		}
		a.run(rows)
		if wants := r.Method != http.MethodGet && !slices.Contains(unaudited(), r.Method+" "+r.Path); r.Changes != wants {
			t.Errorf("%s %s is audited: %v, want %v", r.Method, r.Path, r.Changes, wants)
		}
	}
}

// rabbitHash hashes a password as RabbitMQ does.
func rabbitHash(password string) string {
	salt := []byte{1, 2, 3, 4}
	sum := sha256.Sum256(append(salt, password...))
	return base64.StdEncoding.EncodeToString(append(salt, sum[:]...))
}

// userRows use users.
func userRows() []row {
	hostile := "/api/users/" + url.PathEscape(`ö/../%41 "<b>`)
	return []row{
		{do: "PUT /api/users/ann", body: `{"password":"p","tags":"monitoring, management"}`, code: 201},
		{do: "GET /api/users/ann", code: 200, want: has(`"name":"ann"`, `"tags":["monitoring","management"]`, `"hashing_algorithm":"argon2id"`, `"password_hash":""`, `"limits":{}`)},
		{who: "ann", do: "GET /api/whoami", code: 200, want: has(`"name":"ann"`)},
		{do: "PUT /api/users/ann", body: `{"password":"q","tags":["management"]}`, code: 204},
		{do: "GET /api/users/ann", code: 200, want: has(`"tags":["management"]`)},
		{do: "PUT /api/users/bob", body: `{"password_hash":"` + rabbitHash("p") + `","tags":""}`, code: 201},
		{do: "GET /api/users/bob", code: 200, want: has(`"tags":[]`, `"rabbit_password_hashing_sha256"`)},
		{who: "bob", do: "GET /api/auth", code: 200, want: has(`"oauth_enabled":false`)},
		{do: "GET /api/users", code: 200, want: has(`"ann"`, `"bob"`, `"guest"`)},
		{do: "GET /api/users?page=1&page_size=1&name=b&columns=name", code: 200, want: has(`"items":[{"name":"bob"}]`)},
		{do: "GET /api/users/without-permissions", code: 200, want: has(`"ann"`, `"stranger"`, `!"guest"`)},

		{do: "PUT /v1/users/ann/tags", body: `{"tags":["monitoring"]}`, code: 204},
		{do: "GET /api/users/ann", code: 200, want: has(`"tags":["monitoring"]`, `"hashing_algorithm":"argon2id"`)},
		{do: "PUT /v1/users/ann/password", body: `{"password":"r"}`, code: 204},
		{do: "DELETE /v1/users/ann/password", code: 204},
		{do: "GET /api/users/ann", code: 200, want: has(`"tags":["monitoring"]`, `"hashing_algorithm":""`)},
		{do: "PUT /v1/users/ann/tags", body: `{}`, code: 400, want: has("tags", "is missing")},
		{do: "PUT /v1/users/ann/password", body: `{}`, code: 400, want: has("password", "is missing")},
		{do: "PUT /v1/users/ann/password", body: `{"password":"` + strings.Repeat("x", identity.MaxPasswordBytes+1) + `"}`, code: 400, want: has("the limit is")},
		{do: "PUT /v1/users/nix/tags", body: `{"tags":[]}`, code: 404},
		{do: "PUT /v1/users/nix/password", body: `{"password":"p"}`, code: 404},
		{do: "DELETE /v1/users/nix/password", code: 404},
		{do: "DELETE /v1/users/guest/password", code: 400, want: has("administrator")},
		{do: "PUT /v1/users/guest/tags", body: `{"tags":[]}`, code: 400, want: has("administrator")},
		{do: "GET /v1/users/ann/usage", code: 200, want: has(`{"limit":null,"name":"max-queues","used":0}`, `{"limit":null,"name":"max-message-rate","used":null}`)},
		{do: "GET /v1/users/nix/usage", code: 404},

		{do: "PUT /api/users/c", body: `{"password":"p"}`, code: 400, want: has("tags", "is missing")},
		{do: "PUT /api/users/c", body: `{"tags":{}}`, code: 400, want: has("want a list of strings")},
		{do: "PUT /api/users/c", body: `{"tags":[],"password":7}`, code: 400, want: has("want a string")},
		{do: "PUT /api/users/c", body: `{"tags":[],"password":"p","password_hash":"h"}`, code: 400, want: has("give one of them")},
		{do: "PUT /api/users/c", body: `{"tags":[],"password_hash":"h"}`, code: 400, want: has("password_hash")},
		{do: "PUT /api/users/c", body: `{"tags":[]`, code: 400, want: has("is not a JSON object")},
		{do: "PUT /api/users/c%3Ad", body: `{"tags":[]}`, code: 400, want: has("c:d")},
		{do: "GET /api/users/c", code: 404, want: has("Object Not Found")},
		{do: "DELETE /api/users/c", code: 404},
		{who: "manager", do: "PUT /api/users/manager", body: `{"tags":"administrator"}`, code: 403},

		{do: "PUT " + hostile, body: `{"tags":[]}`, code: 201},
		{do: "GET " + hostile, code: 200, want: has(`"name":"ö/../%41 \"<b>"`)},
		{do: "DELETE " + hostile, code: 204},

		{do: "DELETE /api/users/ann", code: 204},
		{do: "POST /api/users/bulk-delete", body: `{}`, code: 400, want: has("want a list")},
		{do: "POST /api/users/bulk-delete", body: `{"users":[1]}`, code: 400},
		{do: "POST /api/users/bulk-delete", body: `{"users":["bob","nix"]}`, code: 204},
		{do: "GET /api/users/bob", code: 404},
		{do: "POST /api/users/bulk-delete", body: `{"users":["guest"]}`, code: 400, want: has("administrator")},

		{do: "GET /api/auth/hash_password/secret", code: 200, want: has(`"ok":"$argon2id$`)},
		{do: "POST /api/auth/hash_password", body: `{"password":"secret"}`, code: 200, want: has(`"hashing_algorithm":"argon2id"`)},
		{do: "POST /api/auth/hash_password", body: `{}`, code: 400, want: has("is missing")},
		{do: "POST /api/auth/hash_password", body: `{"password":"` + strings.Repeat("x", identity.MaxPasswordBytes+1) + `"}`, code: 400, want: has("the limit is")},
	}
}

// permissionRows use permissions and topic permissions.
func permissionRows() []row {
	const mine, topic = "/api/permissions/%2F/stranger", "/api/topic-permissions/%2F/stranger"
	return []row{
		{do: "GET " + mine, code: 404, want: has("permission")},
		{do: "PUT " + mine, body: `{"configure":"^a","write":".*","read":""}`, code: 201},
		{do: "GET " + mine, code: 200, want: has(`{"configure":"^a","read":"","user":"stranger","vhost":"/","write":".*"}`)},
		{do: "PUT " + mine, body: `{"configure":"","write":"","read":""}`, code: 204},
		{do: "GET /api/users/stranger/permissions", code: 200, want: has(`"user":"stranger"`, `!"user":"guest"`)},
		{do: "GET /api/permissions", code: 200, want: has(`"user":"stranger"`, `"user":"guest"`)},
		{do: "PUT " + mine, body: `{"configure":"","write":""}`, code: 400, want: has("read", "is missing")},
		{do: "PUT " + mine, body: `{"configure":"(","write":"","read":""}`, code: 400, want: has("configure")},
		{do: "PUT /api/permissions/nix/stranger", body: `{"configure":"","write":"","read":""}`, code: 404, want: has("nix")},
		{do: "PUT /api/permissions/%2F/nix", body: `{"configure":"","write":"","read":""}`, code: 404, want: has("nix")},
		{do: "GET /api/users/nix/permissions", code: 404},
		{do: "DELETE " + mine, code: 204},
		{do: "DELETE " + mine, code: 404},
		{who: "manager", do: "GET /api/permissions", code: 403},

		{do: "GET " + topic, code: 404},
		{do: "PUT /api/exchanges/%2F/topics", body: `{"type":"topic"}`, code: 201},
		{do: "PUT " + topic, body: `{"exchange":"amq.topic","write":"^a","read":"^b"}`, code: 201},
		{do: "PUT " + topic, body: `{"exchange":"topics","write":"","read":""}`, code: 201},
		{do: "PUT " + topic, body: `{"exchange":"amq.topic","write":"^a","read":"^c"}`, code: 204},
		{do: "GET " + topic, code: 200, want: has(`{"exchange":"amq.topic","read":"^c","user":"stranger","vhost":"/","write":"^a"}`, `"topics"`)},
		{do: "GET /api/topic-permissions", code: 200, want: has(`"amq.topic"`)},
		{do: "GET /api/users/stranger/topic-permissions", code: 200, want: has(`"amq.topic"`)},
		{do: "GET /api/users/nix/topic-permissions", code: 404},
		{do: "PUT " + topic, body: `{"write":"","read":""}`, code: 400, want: has("exchange", "is missing")},
		{do: "PUT " + topic, body: `{"exchange":"amq.topic","write":"(","read":""}`, code: 400, want: has("write")},
		{do: "DELETE " + topic + "/amq.topic", code: 204},
		{do: "DELETE " + topic + "/amq.topic", code: 404},
		{do: "GET " + topic, code: 200, want: has(`!"amq.topic"`, `"topics"`)},
		{do: "DELETE " + topic, code: 204},
		{do: "GET " + topic, code: 404},
	}
}

// definitionRows use documents of definitions.
func definitionRows() []row {
	const queue = `{"name":"imported","vhost":"/","durable":true,"auto_delete":false,"arguments":{"x-queue-type":"quorum"}}`
	const other = `{"name":"imported","vhost":"/","durable":true,"auto_delete":false,"arguments":{"x-queue-type":"quorum","x-max-length":5}}`
	const wrong = `{"name":"wrong","vhost":"/","durable":true,"auto_delete":false,"arguments":{"x-max-length":"many"}}`
	return []row{
		{do: "POST /api/definitions?dry_run=true", body: `{"queues":[` + queue + `]}`, code: 200, want: has(`"created":1`)},
		{do: "POST /api/definitions", body: `{"queues":[` + queue + `]}`, code: 200, want: has(`"created":1`, `"total":1`, `"objects":[]`)},
		{do: "POST /api/definitions", body: `{"queues":[` + queue + `]}`, code: 200, want: has(`"created":0`, `"unchanged":1`)},
		{do: "POST /api/definitions", body: `{"queues":[` + other + `]}`, code: 200, want: has(`"different":1`, `"outcome":"different"`, `"name":"imported"`)},
		{do: "POST /api/definitions", body: `{"queues":[` + queue + `,` + wrong + `]}`, code: 400, want: has(`"error":"bad_request"`, "x-max-length")},
		{do: "POST /api/definitions", body: `{"queues":`, code: 400},
		{do: "POST /api/definitions/nix", body: `{}`, code: 404},
		{do: "POST /api/definitions/%2F", body: `{"queues":[` + queue + `]}`, code: 200, want: has(`"unchanged":1`)},
		{do: "GET /api/definitions", code: 200, want: has(`"users"`, `"imported"`, `"password_hash"`)},
		{do: "GET /api/definitions/%2F", code: 200, want: has(`"imported"`, `!"users"`)},
		{do: "GET /api/definitions/nix", code: 404},
		{who: "policymaker", do: "GET /api/definitions", code: 403},
	}
}

// clusterRows use what is about the cluster as a whole.
func clusterRows() []row {
	return []row{
		{who: "worker", do: "GET /api/auth", code: 200},
		{who: "manager", do: "GET /api/version", code: 200, want: has(`"1.2.3"`)},
		{who: "manager", do: "GET /api/overview", code: 200, want: has(`"protocol":"grpc/ssl"`, `"port":7071`)},
		{who: "manager", do: "GET /api/cluster-name", code: 200, want: has(`{"name":"blue"}`)},
		{who: "manager", do: "GET /api/cluster-name/", code: 200, want: has(`{"name":"blue"}`)},
		{who: "manager", do: "GET /api/vhosts/%2F/", code: 200, want: has(`"cluster_state":{`)},
		{who: "manager", do: "GET /api/no/such/path", code: 404, want: has(`"error":"no_route"`, "/api/no/such/path")},
		{who: "manager", do: "POST /api/overview", code: 405, want: has(`"error":"no_route"`, "GET")},
		{do: "DELETE /api/vhosts/%2F/", code: 404, want: has(`"error":"no_route"`)},
		{do: "PUT /api/cluster-name", body: `{"name":"blue"}`, code: 204},
		{do: "PUT /api/cluster-name", body: `{"name":"red"}`, code: 400, want: has("red", "cannot be changed", "cluster.name")},
		{do: "PUT /api/cluster-name", body: `{}`, code: 400},
		{who: "manager", do: "GET /api/extensions", code: 200, want: has("[]")},
		{who: "manager", do: "GET /api/feature-flags", code: 200, want: has(`"name":"stored_state_v1"`, `"state":"enabled"`, `"stability":"stable"`)},
		{do: "PUT /api/feature-flags/stored_state_v1/enable", code: 204},
		{do: "PUT /api/feature-flags/stored_state_v99/enable", code: 404},
		{do: "PUT /api/feature-flags/khepri_db/enable", code: 404},
		{do: "GET /api/config/effective", code: 200, want: has(`{"log.level":"info"}`)},
		{do: "GET /v1/cluster", code: 200, want: has(`"catalog_leader"`, `"draining":false`, `"view_age_ms"`)},
		{do: "POST /v1/nodes/nix/drain", body: `{}`, code: 404},
		{do: "POST /v1/nodes/nix/drain", body: `{"timeout_ms":-1}`, code: 400},
		{do: "POST /v1/nodes/nix/undrain", code: 404},
		{do: "GET /api/auth/attempts/nix", code: 404},
		{do: "GET /api/auth/attempts/nix/source", code: 404},
		{do: "DELETE /api/auth/attempts/nix", code: 404},
	}
}

// healthRows use checks on a node that is well.
func healthRows() []row {
	const check, leaders = "GET /api/health/checks/", "quorum-queues-without-elected-leaders/"
	rows := []row{
		{do: check + "certificate-expiration/39/days", code: 200},
		{do: check + "certificate-expiration/2/months", code: 503, want: has(`"status":"failed"`, `"listener":"client"`)},
		{do: check + "certificate-expiration/1/eons", code: 400, want: has("want days")},
		{do: check + "certificate-expiration/999999999/years", code: 400},
		{do: check + "port-listener/5672", code: 200, want: has(`"port":5672`)},
		{do: check + "port-listener/5673", code: 503, want: has(`"missing":5673`, `"ports":[5672,7071]`)},
		{do: check + "port-listener/x", code: 400},
		{do: check + "protocol-listener/amqp091", code: 200},
		{do: check + "protocol-listener/AMQP,grpcs", code: 200, want: has(`"protocols":["amqp","grpc/ssl"]`)},
		{do: check + "protocol-listener/amqp,mqtt", code: 503, want: has(`"missing":["mqtt"]`)},
		{do: check + leaders + "vhost/nix", code: 404},
		{do: check + leaders + "all-vhosts/pattern/(", code: 400},
		{who: "manager", do: check + leaders + "all-vhosts", code: 403},
	}
	for _, name := range []string{
		"alarms", "local-alarms", "virtual-hosts", "node-is-quorum-critical", "node-is-mirror-sync-critical", "ready-to-serve-clients",
		"is-in-service", "below-node-connection-limit", "metadata-store/initialized", "metadata-store/initialized/with-data",
		leaders + "all-vhosts", leaders + "all-vhosts/", leaders + "vhost/%2F/", leaders + "vhost/%2F/pattern/%5Eimp", leaders + "all-vhosts/pattern/.*",
	} {
		rows = append(rows, row{do: check + name, code: 200, want: has(`"status":"ok"`)})
	}
	return rows
}

// Each path of users, permissions, definitions and the cluster: what it does, what is wrong with a
// request, what is not there, and who may not. What was changed is in the audit.
func TestAccessAndCluster(t *testing.T) {
	a, _ := one(t)
	for _, group := range []struct {
		name string
		rows []row
	}{
		{"users", userRows()},
		{"permissions", permissionRows()},
		{"definitions", definitionRows()},
		{"cluster", clusterRows()},
		{"health", healthRows()},
		{"audit", []row{
			{do: "GET /v1/audit?limit=1000&operation=user.*", code: 200, want: has(`"user.put"`, `"user.delete"`, `"name":"bob"`, `"outcome":"refused"`, `"protocol":"http"`)},
			{do: "GET /v1/audit?limit=1000", code: 200, want: has(
				`"permission.set"`, `"permission.clear"`, `"topic_permission.set"`, `"topic_permission.clear"`, `"definitions.import"`,
			)},
			{do: "GET /v1/audit?limit=1&user=nix", code: 200, want: has(`"records":[]`)},
			{do: "GET /v1/audit?limit=x", code: 400},
			{do: "GET /v1/audit?operation=%5B", code: 400},
			{who: "manager", do: "GET /v1/audit", code: 403},
		}},
	} {
		t.Run(group.name, func(t *testing.T) { api{t: t, base: a.base, b: a.b}.run(group.rows) })
	}
}
