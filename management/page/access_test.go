package page_test

import (
	"net/http"
	"strings"
	"testing"
)

// Policies of both kinds are made, shown with what they change, changed and deleted.
func TestPolicies(t *testing.T) {
	x := start(t, 1).login("guest", "guest")
	x.does("/ui/queues/declare", form("vhost", "/", "name", "orders", "arguments", `{"x-max-length": 50}`))
	x.does("/ui/queues/declare", form("vhost", "/", "name", "other"))
	for _, kind := range []string{"", "operator"} {
		x.has(x.page("/ui/policy/new?kind="+kind), "Save", "!Saving changes")
		page := x.page("/ui/policy/new?" + form("kind", kind, "vhost", "/", "name", "p", "pattern", "^o(?=rd)", "definition", `{"max-length": 9}`).Encode())
		x.has(page, "Saving changes 1 of", "x-max-length", "<del>50</del>", "<ins>9</ins>", "It matches 1.", "!other</a>")
		x.has(x.page("/ui/policy/new?"+form("kind", kind, "vhost", "/", "name", "p", "pattern", "(", "definition", `{"max-length": "x"}`).Encode()), "max-length", "pattern", "not a regular expression")
		x.has(x.page("/ui/policy/new?"+form("kind", kind, "vhost", "/", "name", "p", "definition", `{`).Encode()), "want a JSON object")
		put := form("kind", kind, "new", "true", "vhost", "/", "name", "p", "pattern", "^o(?=rd)", "apply-to", "queues", "priority", "2", "definition", `{"max-length": 9}`)
		x.has(x.does("/ui/policy/put", put), "is saved", "^o(?=rd)", ">queues<")
		x.refuses("/ui/policy/put", put, http.StatusBadRequest, "there is a policy")
		x.has(x.page("/ui/policy?"+form("kind", kind, "vhost", "/", "name", "p").Encode()), "Saving changes no queue", "It matches 1.", "stays as it is")
		put.Del("new")
		put.Set("definition", `{"max-length": 8}`)
		x.does("/ui/policy/put", put)
		put.Set("definition", `{"nix": 8}`)
		x.refuses("/ui/policy/put", put, http.StatusBadRequest, "nix")
		x.destroys("/ui/policy/delete", form("kind", kind, "vhost", "/", "name", "p"), "p", "queue orders: x-max-length 8 → 50")
		if code, _, _ := x.get("/ui/policy?" + form("kind", kind, "vhost", "/", "name", "p").Encode()); code != http.StatusNotFound {
			t.Errorf("the deleted policy: %d", code)
		}
	}
	for _, name := range hostile() {
		put := form("new", "true", "vhost", "/", "name", name, "pattern", "^<i>", "definition", `{"message-ttl": 8}`)
		x.has(x.does("/ui/policy/put", put), "!<script>alert", "!<i>")
		x.has(x.page("/ui/policy?"+form("vhost", "/", "name", name).Encode()), "!<script>alert", "!<i>")
		x.destroys("/ui/policy/delete", form("vhost", "/", "name", name), name)
	}
}

// Vhosts are made, changed, limited, protected and deleted.
func TestVHosts(t *testing.T) {
	x := start(t, 1).login("guest", "guest")
	for _, name := range append(hostile(), "v") {
		page := x.does("/ui/vhosts/add", form("name", name, "description", "<i>d</i>", "tags", "two, one", "type", "classic"))
		x.has(page, "&lt;i&gt;d", "one, two", "!<script>alert", "!<i>")
		x.refuses("/ui/vhosts/add", form("name", name), http.StatusBadRequest, "already")
		x.has(x.page("/ui/vhosts?"+form("name", name).Encode()), "classic", "!No virtual host", "!<script>alert")
		page = x.does("/ui/vhost/change", form("name", name, "description", "e", "type", "quorum", "merges", "true", "refuses", "true"))
		x.has(page, `name="merges" value="true" checked`, `name="refuses" value="true" checked`, `name="delays" value="true">`, "!one, two")
		page = x.does("/ui/vhost/limits", form("name", name, "max-queues", "7", "max-connections", ""))
		x.has(page, "Limits changed: 1.", `name="max-queues" type="number" min="0" value="7"`)
		x.has(x.does("/ui/vhost/limits", form("name", name, "max-queues", "7")), "as before")
		x.refuses("/ui/vhost/limits", form("name", name, "max-queues", "many"), http.StatusBadRequest, "want an integer")
		x.has(x.does("/ui/vhost/limits", form("name", name, "max-queues", "")), `name="max-queues" type="number" min="0" value=""`)
		x.does("/ui/queues/declare", form("vhost", name, "name", "q"))
		x.has(x.does("/ui/vhost/protect", form("name", name, "protect", "true")), "End the protection", "!Delete…")
		if code, body, _ := x.get("/ui/vhost/delete?" + form("name", name).Encode()); code != http.StatusBadRequest || !strings.Contains(body, "is protected") {
			t.Errorf("a protected vhost: %d\n%s", code, body)
		}
		x.has(x.does("/ui/vhost/protect", form("name", name)), "Protect from deletion")
		x.has(x.destroys("/ui/vhost/delete", form("name", name), name, "Queues that go with it: 1", "Users that lose their permissions here: 1", "!<script>alert"), "is deleted")
	}
}

// Users are made, changed, permitted, limited and deleted.
func TestUsers(t *testing.T) {
	s := start(t, 1)
	x := s.login("guest", "guest")
	for _, name := range []string{`<script>alert(1)</script>`, "שלום", strings.Repeat("ü", 127), "ann"} {
		add := form("name", name, "tag", "management", "tag", "monitoring", "tags", "team-a", "vhost", "")
		x.refuses("/ui/users/add", add, http.StatusBadRequest, "password")
		add.Set("password", "p")
		x.has(x.does("/ui/users/add", add), "argon2id", "management, monitoring, team-a", "the user may enter no virtual host", "!<script>alert", `value="monitoring" checked`, `value="administrator">`)
		x.refuses("/ui/users/add", add, http.StatusBadRequest, "already")
		x.has(x.page("/ui/users?"+form("name", name).Encode()), "no virtual host", "team-a", "!No user matches", "!<script>alert")

		x.has(x.does("/ui/permission/set", form("of", "user", "user", name, "vhost", "/", "configure", "", "write", "^<i>", "read", ".*")), "nothing", "^&lt;i&gt;")
		x.has(x.page("/ui/user?"+form("name", name, "permission", "/").Encode()), `id="permission" open`, `name="write" value="^&lt;i&gt;"`)
		x.has(x.page("/ui/vhost?"+form("name", "/", "permission", name).Encode()), `id="permission" open`, `name="write" value="^&lt;i&gt;"`)
		x.refuses("/ui/permission/set", form("of", "user", "user", name, "vhost", "/", "configure", "(", "write", "", "read", ""), http.StatusBadRequest, "configure")
		x.has(x.does("/ui/topic-permission/set", form("of", "vhost", "user", name, "vhost", "/", "exchange", "amq.topic", "write", "^{username}", "read", "")), "Topic permissions", "^{username}", "!<script>alert")
		x.has(x.page("/ui/user?"+form("name", name, "topic", "/", "exchange", "amq.topic").Encode()), `id="topic-permission" open`, `name="write" value="^{username}"`)
		x.has(x.does("/ui/user/limits", form("name", name, "max-connections", "5")), `name="max-connections" type="number" min="0" value="5"`)

		x.has(x.does("/ui/user/tags", form("name", name, "tag", "management")), "!team-a", `value="management" checked`, "argon2id")
		x.refuses("/ui/user/password", form("name", name, "password", "q", "again", "r"), http.StatusBadRequest, "not the same")
		x.refuses("/ui/user/password", form("name", name), http.StatusBadRequest, "is missing")
		x.does("/ui/user/password", form("name", name, "password", "q", "again", "q"))
		s.login(name, "q")
		x.has(x.destroys("/ui/user/password/remove", form("name", name), name), "none: it logs in by certificate or token")

		x.destroys("/ui/topic-permission/clear", form("of", "user", "user", name, "vhost", "/", "exchange", "amq.topic"), name, "every routing key")
		x.has(x.destroys("/ui/permission/clear", form("of", "user", "user", name, "vhost", "/"), name, "^&lt;i&gt;"), "the user may enter no virtual host")
		x.has(x.destroys("/ui/user/delete", form("name", name), name, "0 permissions", "Connections that are closed: 0", "Queues that it has declared: 0"), "is deleted")
	}
	x.has(x.page("/ui/user/delete?name=guest"), "This is you")
	x.refuses("/ui/user/delete", form("name", "guest", "typed", "guest"), http.StatusBadRequest, "last administrator")
}

// Who lacks the tag sees no form for what the API would refuse, and changes nothing by sending one.
func TestAccessRoles(t *testing.T) {
	s := start(t, 1)
	for _, tag := range []string{"management", "policymaker", "monitoring"} {
		s.addUser(tag, tag)
	}
	root := s.login("guest", "guest")
	for _, tag := range []string{"management", "policymaker", "monitoring"} {
		root.does("/ui/permission/set", form("of", "user", "user", tag, "vhost", "/", "configure", ".*", "write", ".*", "read", ".*"))
	}
	root.does("/ui/policy/put", form("vhost", "/", "name", "p", "pattern", "x", "definition", `{"max-length": 9}`))
	root.does("/ui/policy/put", form("kind", "operator", "vhost", "/", "name", "p", "pattern", "x", "definition", `{"max-length": 9}`))
	root.does("/ui/vhosts/add", form("name", "secluded"))

	x := s.login("management", "p")
	x.has(x.page("/ui/policies"), "!/ui/policy/new", "max-length")
	x.has(x.page("/ui/policy?vhost=%2F&name=p"), "!/ui/policy/put", "max-length")
	x.has(x.page("/ui/policy/new"), "need the tag policymaker")
	x.has(x.page("/ui/vhosts"), "!secluded", "!/ui/vhosts/add")
	x.has(x.page("/ui/vhost?name=%2F"), "!/ui/vhost/change", "!/ui/vhost/delete", "!/ui/permission/set", "Limits")
	for path, f := range map[string]string{
		"/ui/policy/put": "name", "/ui/vhosts/add": "name", "/ui/vhost/change": "name", "/ui/vhost/protect": "name", "/ui/users/add": "name",
		"/ui/user/tags": "name", "/ui/permission/set": "user", "/ui/topic-permission/set": "user", "/ui/user/password": "name",
	} {
		sent := form(f, "new-one", "vhost", "/", "definition", `{"max-length": 9}`, "password", "p", "again", "p", "exchange", "amq.topic")
		if code, body, _ := x.post(path, sent); code != http.StatusForbidden {
			t.Errorf("%s: %d\n%s", path, code, body)
		}
	}
	for _, path := range []string{"/ui/users", "/ui/user?name=guest"} {
		if code, _, _ := x.get(path); code != http.StatusForbidden {
			t.Errorf("%s: %d", path, code)
		}
	}
	if code, _, _ := x.get("/ui/vhost?name=secluded"); code != http.StatusNotFound {
		t.Errorf("a hidden vhost: %d", code)
	}

	x = s.login("policymaker", "p")
	x.has(x.page("/ui/policies"), `href="/ui/policy/new"`, "!kind=operator&amp;vhost")
	x.has(x.page("/ui/policy?vhost=%2F&name=p"), "/ui/policy/put")
	x.has(x.page("/ui/policy?kind=operator&vhost=%2F&name=p"), "!/ui/policy/put")
	x.does("/ui/policy/put", form("vhost", "/", "name", "p", "pattern", "y", "definition", `{"max-length": 9}`))
	x.refuses("/ui/policy/put", form("kind", "operator", "vhost", "/", "name", "p", "pattern", "y", "definition", `{"max-length": 9}`), http.StatusForbidden, "administrator")

	x = s.login("monitoring", "p")
	x.has(x.page("/ui/vhosts"), "secluded", "!/ui/vhosts/add")
}
