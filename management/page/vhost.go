package page

import (
	"net/http"
	"net/url"
	"slices"
)

// vhostViews are the pages about vhosts.
func vhostViews() []view {
	return []view{
		{path: "/ui/vhosts", file: "vhosts.html", title: "Virtual hosts", load: loadVHosts},
		{path: "/ui/vhost", file: "vhost.html", title: "Virtual host", load: loadVHost},
	}
}

// vhostActions change vhosts.
func vhostActions() []action {
	return []action{
		{path: "/ui/vhosts/add", does: addVHost},
		{path: "/ui/vhost/change", does: changeVHost},
		{path: "/ui/vhost/protect", does: protectVHost},
		{path: "/ui/vhost/delete", asks: asksDeleteVHost, does: deleteVHost},
	}
}

// vhostRow is a vhost in a list, and in its form.
type vhostRow struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
	QueueType   string   `json:"default_queue_type"`
	Protected   bool     `json:"protected_from_deletion"`
	Queues      int      `json:"queues"`
	// Messages and Stats are those of its queues that have a leader.
	Messages *uint64      `json:"messages"`
	Ready    *uint64      `json:"messages_ready"`
	Unacked  *uint64      `json:"messages_unacknowledged"`
	Stats    messageStats `json:"message_stats"`
	Metadata struct {
		Merges  bool   `json:"merge_policies"`
		Delays  bool   `json:"delayed_publish"`
		Deaths  bool   `json:"import_deaths"`
		Unknown string `json:"unknown_arguments"`
	} `json:"metadata"`
}

// Refuses reports whether unknown arguments are refused.
func (h vhostRow) Refuses() bool { return h.Metadata.Unknown == "refuse" }

// vhostsPage is the list of vhosts.
type vhostsPage struct{ Page listPage[*vhostRow] }

func loadVHosts(v *visit) (any, error) {
	var p vhostsPage
	return p, v.list(&p.Page, v.listQuery(), "/api/vhosts")
}

// vhostPage is what the page about one vhost shows.
type vhostPage struct {
	VHost       vhostRow
	Counts      []countOf
	Limits      []limitRow
	Permissions permissionsPart
}

// countOf is the number of things in a vhost, with the way to their list.
type countOf struct {
	Says string
	N    int
	List string
}

// vhostLists are what a vhost has, which goes with it: the API's lists below a vhost, and the pages for them.
func vhostLists() []struct{ says, api, page string } {
	return []struct{ says, api, page string }{
		{"Queues", "/api/queues/%s", "/ui/queues"},
		{"Exchanges", "/api/exchanges/%s", "/ui/exchanges"},
		{"Bindings", "/api/bindings/%s", ""},
		{"Policies", "/api/policies/%s", "/ui/policies"},
		{"Operator policies", "/api/operator-policies/%s", "/ui/policies"},
		{"Consumers", "/api/consumers/%s", "/ui/consumers"},
	}
}

// vhostCounts counts what is in a vhost.
func (v *visit) vhostCounts(name string) (all []countOf, err error) {
	for _, x := range vhostLists() {
		c := countOf{Says: x.says}
		if c.N, err = v.howMany(x.api, name); err != nil {
			return nil, err
		}
		if x.page != "" {
			c.List = address(x.page, "vhost", name)
		}
		all = append(all, c)
	}
	return all, nil
}

// loadVHost asks for the permissions only as a user who may see them.
func loadVHost(v *visit) (any, error) {
	var p vhostPage
	name := v.URL.Query().Get("name")
	err := v.get(&p.VHost, "/api/vhosts/%s", name)
	if err != nil {
		return nil, err
	}
	if p.Counts, err = v.vhostCounts(name); err != nil {
		return nil, err
	}
	if err := v.get(&p.Limits, "/v1/vhosts/%s/usage", name); err != nil {
		return nil, err
	}
	if v.Can("administrator") {
		p.Permissions, err = v.permissionsOf("vhost", name)
	}
	return p, err
}

// vhostBody is what the API takes of a vhost's form.
func (v *visit) vhostBody() map[string]any {
	unknown := "warn"
	if v.flag("refuses") {
		unknown = "refuse"
	}
	return map[string]any{
		"description": v.FormValue("description"), "tags": v.words("tags"), "default_queue_type": v.FormValue("type"),
		"merge_policies": v.flag("merges"), "delayed_publish": v.flag("delays"), "import_deaths": v.flag("deaths"), "unknown_arguments": unknown,
	}
}

// aboutVHost is the address of the page about a vhost.
func aboutVHost(name string) string { return address("/ui/vhost", "name", name) }

// addVHost changes no vhost that is there.
func addVHost(v *visit) (outcome, error) {
	name := v.FormValue("name")
	names, err := v.vhosts()
	if err != nil {
		return outcome{}, err
	}
	if slices.Contains(names, name) {
		return outcome{}, badForm("name", "there is a virtual host of this name already; open it to change it")
	}
	body := map[string]any{"description": v.FormValue("description"), "tags": v.words("tags"), "default_queue_type": v.FormValue("type")}
	err = v.change(http.MethodPut, body, nil, "/api/vhosts/%s", name)
	return outcome{aboutVHost(name), "The virtual host is there, and you may do everything in it."}, err
}

// changeVHost sends all settings of the form, but not the protection, which has one of its own.
func changeVHost(v *visit) (outcome, error) {
	name := v.FormValue("name")
	err := v.change(http.MethodPut, v.vhostBody(), nil, "/api/vhosts/%s", name)
	return outcome{aboutVHost(name), "The settings are saved."}, err
}

// protectVHost begins or ends the protection from deletion.
func protectVHost(v *visit) (outcome, error) {
	name := v.FormValue("name")
	method, said := http.MethodDelete, "The virtual host can be deleted now."
	if v.flag("protect") {
		method, said = http.MethodPost, "The virtual host is protected from deletion."
	}
	err := v.change(method, nil, nil, "/api/vhosts/%s/deletion/protection", name)
	return outcome{aboutVHost(name), said}, err
}

// asksDeleteVHost counts what goes with the vhost.
func asksDeleteVHost(v *visit) (question, error) {
	name := v.FormValue("name")
	q := question{Title: "Delete virtual host " + name + "?", Name: name, Button: "Delete", Back: aboutVHost(name)}
	var h vhostRow
	if err := v.get(&h, "/api/vhosts/%s", name); err != nil {
		return q, err
	}
	if h.Protected {
		return q, badForm("name", "the virtual host is protected from deletion; end the protection on its page first")
	}
	counts, err := v.vhostCounts(name)
	if err != nil {
		return q, err
	}
	var queues []queueRow
	if err := v.list(&queues, url.Values{"columns": {"messages"}}, "/api/queues/%s", name); err != nil {
		return q, err
	}
	messages := uint64(0)
	for i := range queues {
		if n := queues[i].Messages; n != nil {
			messages += *n
		}
	}
	q.Lines = append(q.Lines, count(messages)+" messages are deleted for good, with their queues.")
	for _, c := range counts {
		q.Lines = append(q.Lines, c.Says+" that go with it: "+count(c.N))
	}
	connections, err := v.howMany("/api/vhosts/%s/connections", name)
	if err != nil {
		return q, err
	}
	users, err := v.howMany("/api/vhosts/%s/permissions", name)
	q.Lines = append(q.Lines, "AMQP connections that are closed: "+count(connections), "Users that lose their permissions here: "+count(users), "Its limits go too.")
	return q, err
}

// deleteVHost deletes all that asksDeleteVHost has counted.
func deleteVHost(v *visit) (outcome, error) {
	name := v.FormValue("name")
	err := v.change(http.MethodDelete, nil, nil, "/api/vhosts/%s", name)
	return outcome{"/ui/vhosts", "Virtual host " + name + " is deleted."}, err
}
