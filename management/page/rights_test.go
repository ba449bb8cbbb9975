package page_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/identity"
)

// permit adds a user with the tag management and rights in the default vhost: patterns for configure, write and read.
func (s site) permit(name, configure, write, read string) {
	s.t.Helper()
	s.addUser(name, identity.TagManagement)
	s.permitIn("/", name, configure, write, read)
}

// permitIn gives a user rights in a vhost.
func (s site) permitIn(vhost, name, configure, write, read string) {
	s.t.Helper()
	root := identity.WithIdentity(s.t.Context(), identity.Itself())
	p := administration.Permission{User: name, VHost: vhost, Configure: configure, Write: write, Read: read}
	if _, err := s.b.Administration.SetPermission(root, p); err != nil {
		s.t.Fatal(err)
	}
}

// furnishRights makes a queue whose only message is a dead letter, and an exchange that leads to another queue.
func (s site) furnishRights() *browser {
	s.t.Helper()
	x, ch := s.login("guest", "guest"), s.channel()
	x.leads("/ui/queues/declare", aboutForm("work", "arguments", `{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}`))
	x.leads("/ui/queues/declare", aboutForm("dead"))
	x.leads("/ui/exchanges/declare", aboutForm("shop", "type", "topic", "durable", "true"))
	x.leads("/ui/binding/add", aboutForm("shop", "kind", "queue", "source", "shop", "destination", "work", "routing_key", "k"))
	x.leads("/ui/queue/messages/publish", aboutForm("work", "message_id", "m1"))
	reject(s.t, ch, "work")
	x.await("/ui/queue/messages"+about("dead"), "m1")
	return x
}

// The pages about messages offer what the user's rights allow, and nothing that would be refused whatever is entered.
func TestRightsToMessages(t *testing.T) {
	s := start(t, 1)
	s.furnishRights()
	s.permit("reader", "", "", ".*")               // publishes nowhere
	s.permit("shopper", "", "^shop$", ".*")        // to an exchange, not to queues
	s.permit("sender", "", `^amq\.default$`, ".*") // to queues
	list, one := "/ui/queue/messages"+about("dead"), "/ui/queue/message"+about("dead", "number", "1")
	dead, form := "/ui/queue/dead-letters"+about("dead"), "/ui/queue/messages/publish"+about("dead")
	const move, redrive, remove = `formaction="/ui/queue/messages/move"`, `formaction="/ui/queue/messages/redrive"`, `formaction="/ui/queue/messages/delete"`
	const toQueue, toExchange, publish = `<option value="queue">`, `<option value="exchange">`, `href="/ui/queue/messages/publish?`
	const redriveOne, removeOne, formItself = `href="/ui/queue/messages/redrive?`, `href="/ui/queue/messages/delete?`, `action="/ui/queue/messages/publish"`

	x := s.login("reader", "p")
	x.shows(list, "m1", remove, "!"+move, "!"+redrive, "!"+publish, "!Republish", "!Publish again")
	x.shows(one, "m1", removeOne, "!"+redriveOne, "!"+publish)
	x.shows(dead, "Look at them", "!"+redriveOne)
	x.shows(form, `permission to write to exchange <span dir="auto">amq.default<`, "!"+formItself)
	for _, job := range []string{"move", "redrive"} {
		for _, to := range []string{"queue", "exchange"} {
			send := aboutForm("dead", "scope", "all", "to", to, "target", map[string]string{"queue": "work", "exchange": "shop"}[to], "key", "k", "back", "queue")
			x.refuses("/ui/queue/messages/"+job, send, http.StatusForbidden, "no write access")
		}
	}

	x = s.login("shopper", "p")
	x.shows(list, "m1", remove, move, redrive, toExchange, "!"+toQueue, "!"+publish, "!Republish")
	x.shows(one, "m1", removeOne, "!"+redriveOne, "!"+publish)
	x.shows(dead, "Look at them", "!"+redriveOne)
	x.shows(form, "!"+formItself)
	x.shows("/ui/queue/messages/move"+about("dead", "scope", "all", "to", "exchange", "target", "shop", "key", "k"), "Move 1 message of")

	x = s.login("sender", "p")
	x.shows(list, remove, move, redrive, toExchange, toQueue, publish, "Republish…", "Publish again")
	x.shows(one, removeOne, redriveOne, publish)
	x.shows(dead, redriveOne)
	x.shows(form, formItself)
	x.shows("/ui/queue/messages/move"+about("dead", "scope", "all", "to", "queue", "target", "work"), "Move 1 message of")

	x = s.login("reader", "p")
	x.leads("/ui/queue/messages/delete", aboutForm("dead", "scope", "all", "typed", "dead"))
	x.await(list, "No message here")
}

// A binding needs rights to both its ends; it is offered if the user may have them.
func TestRightsToBindings(t *testing.T) {
	s := start(t, 1)
	s.furnishRights().leads("/ui/binding/add", aboutForm("shop", "kind", "exchange", "source", "amq.topic", "destination", "shop", "routing_key", "k"))
	s.permit("reader", "", "", ".*")
	s.permit("writer", "", ".*", "")
	s.permit("filler", "", "^work$", "^shop$")
	s.permit("feeder", "", "^shop$", `^amq\.topic$`)
	shop, work := "/ui/exchange"+about("shop"), "/ui/queue/bindings"+about("work")
	const add, remove, from, to = `action="/ui/binding/add"`, `href="/ui/binding/remove?`, "Bind a queue or an exchange to this one", "Bind this exchange to another one"

	for _, user := range []string{"reader", "writer"} {
		x := s.login(user, "p")
		x.shows(shop, "Bindings from this exchange", "!"+add, "!"+remove)
		x.shows(work, "default exchange", "!"+add, "!"+remove)
	}
	x := s.login("reader", "p")
	x.shows("/ui/exchange/publish"+about("shop"), `permission to write to exchange <span dir="auto">shop<`, `!action="/ui/exchange/publish"`)
	x = s.login("writer", "p")
	x.shows("/ui/exchange/publish"+about("shop"), `action="/ui/exchange/publish"`)

	x = s.login("filler", "p")
	x.shows(shop, add, remove, from, "!"+to)
	x.shows(work, add, remove)
	x.leads("/ui/binding/add", aboutForm("shop", "kind", "queue", "source", "shop", "destination", "work", "routing_key", "l"))

	x = s.login("feeder", "p")
	x.shows(shop, add, remove, "!"+from, to)
	x.shows(work, "!"+add, "!"+remove)
}

// The list of queues offers to delete and to purge by what each needs, in the vhosts that it lists.
func TestRightsToQueues(t *testing.T) {
	s := start(t, 1)
	s.login("guest", "guest").does("/ui/vhosts/add", form("name", "v"))
	const remove, purge, all, v = `value="delete"`, `formaction="/ui/queues/purge"`, "/ui/queues?vhost=%2F", "/ui/queues?vhost=v"
	s.permit("reader", "", "", ".*")
	s.permit("keeper", ".*", "", "")
	s.permit("sender", "", ".*", "")
	s.permit("mixed", ".*", "", "")
	s.permitIn("v", "mixed", "", "", ".*")

	s.login("reader", "p").shows("/ui/queues", purge, "!"+remove)
	s.login("keeper", "p").shows("/ui/queues", remove, "!"+purge)
	s.login("sender", "p").shows("/ui/queues", "!"+remove, "!"+purge)
	x := s.login("mixed", "p")
	x.shows("/ui/queues", remove, purge)
	x.shows(all, remove, "!"+purge)
	list, _, _ := strings.Cut(x.shows(v, purge, "!"+remove), "</section>") // what the page's script replaces by that of another vhost
	x.has(list, `id="list"`, purge)
}
