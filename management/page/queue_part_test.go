package page_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rabbitmq/amqp091-go"
)

// reject discards the oldest message of a queue.
func reject(t *testing.T, ch *amqp091.Channel, queue string) {
	t.Helper()
	d, ok, err := ch.Get(queue, false)
	if err != nil || !ok {
		t.Fatalf("get from %s: %v, %v", queue, ok, err)
	}
	if err := d.Reject(false); err != nil {
		t.Fatal(err)
	}
}

// channel opens a client's channel.
func (s site) channel() *amqp091.Channel {
	s.t.Helper()
	conn, err := amqp091.Dial("amqp://guest:guest@" + s.amqp + "/")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		s.t.Fatal(err)
	}
	return ch
}

// harmful is a name that would run a script, ends a quote and turns the direction of what follows.
const harmful = `<script>alert("1")</script>` + "\u202egnp.exe"

// Messages are published with properties, looked at, chosen by a filter, and published again as they are.
func TestMessages(t *testing.T) {
	s := start(t, 1)
	x := s.login("guest", "guest")
	const path = "/ui/queue/messages"
	x.leads("/ui/queues/declare", aboutForm("work"))
	x.shows(path+"/publish"+about("work"), `name="headers"`, `value="2" selected`)
	fields := aboutForm("work", "body", "{\"a\":\r\n 1}", "message_id", harmful, "content_type", "application/json", "headers", `{"n": 9007199254740993, "region": "eu"}`,
		"priority", "3", "timestamp", "1700000000", "delivery_mode", "2", "expiration", "3600000")
	if to := x.leads(path+"/publish", fields); to != path+about("work") {
		t.Errorf("published, then %s", to)
	}
	x.leads(path+"/publish", aboutForm("work", "body", "AAH/", "encoding", "base64", "message_id", "m2", "headers", `{"n": 2}`))
	x.leads(path+"/publish", aboutForm("work", "message_id", "m3"))
	x.shows(path+about("work"), "&lt;script&gt;", "!<script>alert", "m2", "m3", "3 messages shown", "0001ff", "{&#34;a&#34;: 1}")
	x.shows(path+about("work", "bodies", "none"), "m2", "!0001ff")
	x.shows(path+about("work", "header", "n", "value", "2"), "m2", "!m3")
	x.shows(path+about("work", "header", "n", "value", `"2"`), "!m2", "No message here matches")
	x.shows(path+about("work", "header", "region", "value", "eu", "number", "1"), "&lt;script&gt;", "!m3")
	x.shows(path+about("work", "message_id", harmful), "&lt;script&gt;", "!m3")
	x.shows(path+about("work", "dead", "true"), "No message here matches")
	for _, part := range []string{"unsettled", "delayed", "backlog"} {
		x.shows(path+about("work", "part", part), "No message here", "!Change messages")
	}
	x.shows("/ui/queue/message"+about("work", "number", "1"), "&lt;script&gt;", "!<script>alert", "9007199254740993", "{\n  &#34;a&#34;: 1\n}", "2023-11-14", "3600000")
	x.shows("/ui/queue/message"+about("work", "number", "1", "as", "hex"), "7b 22 61 22")
	x.shows("/ui/queue/message"+about("work", "number", "2"), "00 01 ff", `aria-current="true">hex`)
	x.shows("/ui/queue/message"+about("work", "number", "2", "as", "base64"), "AAH/")
	x.shows("/ui/queue/message"+about("work", "number", "2", "as", "json"), "The body is no JSON")
	x.shows("/ui/queue/message"+about("work", "number", "3"), "The body is empty")
	x.shows(path+"/publish"+about("work", "number", "1"), ">\n{&#34;a&#34;:\n 1}</textarea>", "9007199254740993", `value="1700000000"`, `value="application/json"`)
	x.shows(path+"/publish"+about("work", "number", "2"), "AAH/</textarea>", `value="base64" selected`)
	for i, deaths := range []string{`"none"`, `[{"count": "many"}]`, `[7]`, `{}`} { // clients may send anything by this name
		x.leads(path+"/publish", aboutForm("work", "headers", `{"x-death": `+deaths+`}`))
		x.shows("/ui/queue/message"+about("work", "number", strconv.Itoa(4+i)), `<dt dir="auto">x-death</dt>`, "!How it died")
	}
	for _, gone := range []string{path + about("work", "number", "x"), path + about("work", "page_token", "x"), path + about("work", "part", "x")} {
		if code, _, _ := x.get(gone); code != http.StatusBadRequest {
			t.Errorf("%s: %d", gone, code)
		}
	}
	if code, _, _ := x.get("/ui/queue/message" + about("work", "number", "99")); code != http.StatusNotFound {
		t.Errorf("a message that is not there: %d", code)
	}
	x.refuses(path+"/publish", aboutForm("work", "priority", "high"), http.StatusBadRequest, "no whole number")
	x.refuses(path+"/publish", aboutForm("work", "headers", "[]"), http.StatusBadRequest, "want a JSON object")
	x.refuses(path+"/publish", aboutForm("work", "body", "?", "encoding", "base64"), http.StatusBadRequest, "base64")
	x.refuses(path+"/publish", aboutForm("nix"), http.StatusNotFound, "nix")
}

// Messages are deleted, moved and redriven after a dry run, by an operation; a page of another session changes nothing.
func TestMessageJobs(t *testing.T) {
	s := start(t, 1)
	x, ch := s.login("guest", "guest"), s.channel()
	const path = "/ui/queue/messages"
	x.leads("/ui/queues/declare", aboutForm("work", "arguments", `{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}`))
	for _, name := range []string{"dead", harmful} {
		x.leads("/ui/queues/declare", aboutForm(name))
	}
	for _, id := range []string{"m1", "m2", "m3", "m4"} {
		x.leads(path+"/publish", aboutForm("work", "message_id", id))
	}
	reject(t, ch, "work")
	x.await(path+about("dead"), "dead letter</span>")
	x.shows("/ui/queue/message"+about("dead", "number", "1"), "How it died", ">work</a>", "<td>rejected</td>", "x-first-death-queue", "!<dt dir=\"auto\">x-death</dt>", "Redrive…")
	x.shows("/ui/queue/dead-letters"+about("dead"), "This queue holds dead letters", "!Messages that died here")

	for _, bad := range []string{path + "/delete" + about("work"), path + "/delete" + about("work", "scope", "all", "message_id", "nix"), path + "/move" + about("work", "scope", "all")} {
		if code, body, _ := x.get(bad); code != http.StatusBadRequest || !strings.Contains(body, `class="fault"`) {
			t.Errorf("%s: %d\n%s", bad, code, body)
		}
	}
	x.shows(path+"/delete"+about("work", "chosen", "2"), "Delete 1 message of", "m2", "!m3", "Type <strong")
	x.refuses(path+"/delete", aboutForm("work", "chosen", "2"), http.StatusBadRequest, "nothing was done")
	if to := x.leads(path+"/delete", aboutForm("work", "chosen", "2", "typed", "work")); !strings.HasPrefix(to, "/ui/operation?id=") {
		t.Errorf("deleted, then %s", to)
	}
	x.await(path+about("work"), "2 messages shown")
	x.shows(path+"/move"+about("work", "scope", "all", "message_id", "m3", "to", "queue", "target", harmful), "Move 1 message of", "&lt;script&gt;", "!<script>alert")
	x.leads(path+"/move", aboutForm("work", "scope", "all", "message_id", "m3", "to", "queue", "target", harmful, "typed", "work"))
	x.await(path+about(harmful), "m3")
	x.operationsEnd()
	x.refuses(path+"/move", aboutForm("work", "scope", "all", "to", "exchange", "key", "dead"), http.StatusBadRequest, "nothing was done")
	x.leads(path+"/move", aboutForm("work", "scope", "all", "to", "exchange", "key", "dead", "typed", "work"))
	x.await(path+about("dead"), "m4")
	x.refuses(path+"/move", aboutForm("dead", "scope", "all", "to", "exchange", "target", "nix"), http.StatusNotFound, "nix")
	x.shows(path+"/redrive"+about("dead", "scope", "all", "dead", "true"), "Redrive 1 message of", "go back to the queue where they first died")
	x.refuses(path+"/redrive", aboutForm("dead", "scope", "all", "dead", "true"), http.StatusBadRequest, "nothing was done")
	x.leads(path+"/redrive", aboutForm("dead", "scope", "all", "dead", "true", "typed", "dead"))
	x.await(path+about("work"), "m1")
	forged := aboutForm("dead", "scope", "all", "typed", "dead", "form_token", "x")
	x.refuses(path+"/delete", forged, http.StatusForbidden, "another session")
	x.shows(path+about("dead"), "m4")
}

// The page about dead letters says why they wait, where they would go, and which settings decide it.
func TestDeadLetters(t *testing.T) {
	s := start(t, 1)
	x, ch := s.login("guest", "guest"), s.channel()
	x.leads("/ui/queues/declare", aboutForm("work", "arguments", `{"x-dead-letter-exchange": "nowhere", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}`))
	x.leads("/ui/queue/messages/publish", aboutForm("work", "message_id", "m1"))
	x.shows("/ui/queue/dead-letters"+about("work"), "It goes nowhere", "nowhere", "x-dead-letter-strategy", "<td dir=\"auto\">argument</td>", "No message has died", "!holds dead letters")
	reject(t, ch, "work")
	x.await("/ui/queue/dead-letters"+about("work"), "Dead letters wait because")
	x.shows("/ui/queue/dead-letters"+about("work"), `<th scope="row">rejected</th><td>at-least-once</td><td class="number">1</td>`, `<th scope="row">no_exchange</th><td class="number">1</td>`)
	x.shows("/ui/queue/messages"+about("work", "part", "backlog"), "m1", "<td>rejected</td>", "!Change messages")
	x.shows("/ui/queue/dead-letters"+about("work", "part", "backlog", "number", "1"), "It goes nowhere", `value="1"`)
	if code, _, _ := x.get("/ui/queue/dead-letters" + about("work", "number", "x")); code != http.StatusBadRequest {
		t.Errorf("no number: %d", code)
	}
	x.shows("/ui/queue"+about("work"), "Settings in force", "x-dead-letter-exchange")
	if err := ch.ExchangeDeclare("nowhere", "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	x.leads("/ui/queues/declare", aboutForm(harmful))
	x.leads("/ui/binding/add", aboutForm(harmful, "of", "queue", "kind", "queue", "destination", harmful, "source", "nowhere", "routing_key", "work.#"))
	x.await("/ui/queue/messages"+about(harmful), "m1")
	x.shows("/ui/queue/dead-letters"+about("work", "reason", "expired", "key", "other"), "It goes nowhere", "1 bindings do not match", "&lt;script&gt;", "!<script>alert")
	x.shows("/ui/queue/dead-letters"+about("work"), "!It goes nowhere", "matches:", "!<script>alert", "!Dead letters wait because")
}

// unbindLink finds the links to the questions before bindings are removed.
var unbindLink = regexp.MustCompile(`href="(/ui/binding/remove[^"]+)"`)

// Bindings are made and removed; what belongs to the default exchange stays.
func TestQueueBindings(t *testing.T) {
	s := start(t, 1)
	x, ch := s.login("guest", "guest"), s.channel()
	long := strings.Repeat("k", 255)
	x.leads("/ui/queues/declare", aboutForm(harmful))
	if err := ch.ExchangeDeclare(harmful, "headers", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	const path = "/ui/queue/bindings"
	bind := func(more ...string) url.Values {
		return aboutForm(harmful, append([]string{"of", "queue", "kind", "queue", "destination", harmful}, more...)...)
	}
	x.shows(path+about(harmful), "always there", `value="&lt;script&gt;`, "!<script>alert", "1 of 1")
	x.leads("/ui/binding/add", bind("source", harmful, "routing_key", long, "arguments", `{"x-match": "any", "a": "<b>"}`))
	x.leads("/ui/binding/add", bind("source", harmful, "routing_key", "."))
	x.refuses("/ui/binding/add", bind("routing_key", "k"), http.StatusBadRequest, "want a name")
	x.refuses("/ui/binding/add", bind("source", "nix"), http.StatusNotFound, "nix")
	x.refuses("/ui/binding/add", bind("source", harmful, "arguments", "x"), http.StatusBadRequest, "want a JSON object")
	x.shows(path+about(harmful), long, "&lt;b&gt;", "!<b>", "3 of 3")
	x.shows("/ui/queue/messages/publish"+about(harmful), "!<script>alert")
	for _, found := range unbindLink.FindAllStringSubmatch(x.page(path+about(harmful)), -1) {
		to, _ := url.Parse(strings.ReplaceAll(found[1], "&amp;", "&"))
		x.shows(to.String(), "Remove the binding of queue", "!<script>alert", "!<b>")
		x.destroys(to.Path, to.Query(), harmful)
	}
	x.shows(path+about(harmful), "1 of 1", "!Remove…")
	if code, _, _ := x.get("/ui/binding/remove?" + bind("source", harmful, "props", "~").Encode()); code != http.StatusNotFound {
		t.Errorf("a binding that is not there: %d", code)
	}
}

// Consumers are listed with what they hold, for those who may see the whole vhost.
func TestQueueConsumers(t *testing.T) {
	s := start(t, 1)
	x, ch := s.login("guest", "guest"), s.channel()
	x.leads("/ui/queues/declare", aboutForm("work"))
	x.leads("/ui/queues/declare", aboutForm("other"))
	x.shows("/ui/queue/consumers"+about("work"), "Nobody consumes")
	if err := ch.Qos(7, 0, false); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.Consume("work", harmful, false, false, false, false, amqp091.Table{"x-priority": int32(5)}); err != nil {
		t.Fatal(err)
	}
	x.leads("/ui/queue/messages/publish", aboutForm("work", "message_id", "m1"))
	x.await("/ui/queue/messages"+about("work", "part", "unsettled"), "m1")
	x.shows("/ui/queue/consumers"+about("work"), "&lt;script&gt;", "!<script>alert", `/ui/connection?name=127.0.0.1`, `<td class="number">7</td><td class="number">1</td>`, "<code>x-priority</code>: <code>5</code>")
	x.shows("/ui/queue/consumers"+about("other"), "Nobody consumes")
}

// A member is removed and added again, by operations.
func TestMembers(t *testing.T) {
	s := start(t, 3)
	x := s.login("guest", "guest")
	x.leads("/ui/queues/declare", aboutForm("work"))
	const path = "/ui/queue/members"
	x.await(path+about("work"), "<strong>leader</strong>")
	x.shows(path+about("work"), "Each node of the cluster is a member", "Remove node-0", "Remove node-2")
	x.shows(path+"/remove"+about("work", "node", "node-0"), "its copy of the messages is deleted", "Type <strong")
	if code, _, _ := x.get(path + "/remove" + about("work", "node", "nix")); code == http.StatusOK {
		t.Error("a node that is no member can be removed")
	}
	x.refuses(path+"/remove", aboutForm("work", "node", "node-0", "typed", "work"), http.StatusBadRequest, "nothing was done")
	if to := x.leads(path+"/remove", aboutForm("work", "node", "node-0", "typed", "node-0")); !strings.HasPrefix(to, "/ui/operation?id=") {
		t.Errorf("removed, then %s", to)
	}
	x.await(path+about("work"), "<option>node-0</option>")
	x.operationsEnd()
	x.leads("/ui/queues/declare", aboutForm("other"))
	x.shows("/ui/queue/operations"+about("work"), "remove-member", "node &#34;node-0&#34;", `<a href="/ui/operation?id=`)
	x.shows("/ui/queue/operations"+about("other"), "No operation has changed this queue", "!remove-member")
	x.leads(path+"/add", aboutForm("work", "node", "node-0"))
	x.await(path+about("work"), "Each node of the cluster is a member")
}

// A form about a member that names no node changes nothing, and says so.
func TestMemberWithoutNode(t *testing.T) {
	s := start(t, 1)
	x := s.login("guest", "guest")
	x.leads("/ui/queues/declare", aboutForm("work"))
	for act, reason := range map[string]string{"lead": "name a member of the queue", "add": "name a node of the cluster", "remove": "name a node of the cluster"} {
		for _, send := range []url.Values{aboutForm("work"), aboutForm("work", "node", "")} {
			x.refuses("/ui/queue/members/"+act, send, http.StatusBadRequest, reason)
		}
	}
}

// Who lacks rights sees less, and changes nothing.
func TestQueuePartsOfOthers(t *testing.T) {
	s := start(t, 1)
	x := s.login("guest", "guest")
	s.addUser("reader", "management")
	x.leads("/ui/queues/declare", aboutForm("work"))
	x.leads("/ui/queue/messages/publish", aboutForm("work", "message_id", "m1"))
	other := s.login("reader", "p")
	for path, send := range map[string]url.Values{
		"/ui/queue/messages/publish": aboutForm("work"), "/ui/queue/messages/delete": aboutForm("work", "scope", "all", "typed", "work"),
		"/ui/binding/add": aboutForm("work", "kind", "queue", "destination", "work", "source", "amq.topic"), "/ui/queue/members/add": aboutForm("work", "node", "node-0"),
		"/ui/queue/members/remove": aboutForm("work", "node", "node-0", "typed", "node-0"),
	} {
		if code, body, _ := other.post(path, send); code != http.StatusForbidden && code != http.StatusNotFound {
			t.Errorf("%s: %d\n%s", path, code, body)
		}
	}
	for _, path := range []string{"/messages", "/message", "/messages/publish", "/dead-letters", "/members", "/consumers", "/bindings", "/operations"} {
		if code, body, _ := other.get("/ui/queue" + path + about("work", "number", "1")); code != http.StatusForbidden && code != http.StatusNotFound {
			t.Errorf("%s: %d\n%s", path, code, body)
		}
		if code, _, to := s.open().get("/ui/queue" + path + about("work")); code != http.StatusSeeOther || !strings.HasPrefix(to, "/ui/login") {
			t.Errorf("%s without a login: %d to %q", path, code, to)
		}
	}
	x.shows("/ui/queue/messages"+about("work"), "m1")
}
