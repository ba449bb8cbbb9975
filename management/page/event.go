package page

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// eventViews are the pages about what has happened.
func eventViews() []view {
	return []view{
		{path: "/ui/events", file: "events.html", title: "Events", load: loadEvents},
		{path: "/ui/log", file: "log.html", title: "Log", load: loadLog},
		{path: "/ui/audit", file: "audit.html", title: "Audit", load: loadAudit},
	}
}

// kindGroup is a few kinds of events that are chosen together in the form.
type kindGroup struct {
	Says  string
	Kinds []kindChoice
}

// kindChoice is a kind of events in the form.
type kindChoice struct {
	Kind string
	On   bool
}

// Says is the kind in words.
func (k kindChoice) Says() string { return strings.ReplaceAll(k.Kind, "_", " ") }

// kindGroups are all kinds of events.
func kindGroups(chosen []string) []kindGroup {
	is := map[string]bool{}
	for _, k := range chosen {
		is[k] = true
	}
	var all []kindGroup
	for _, g := range [][]string{
		{"Queues", "queue_created", "queue_deleting", "queue_deleted", "queue_changed", "queue_full", "queue_not_full"},
		{"Messages", "dead_letter_blocked", "dead_letter_unblocked", "consumer_timeout", "degraded_strategy", "messages_dropped"},
		{"Members", "member_added", "member_removed", "leader_changed", "leaders_spread", "node_replaced"},
		{"Exchanges", "exchange_created", "exchange_deleted", "binding_created", "binding_deleted"},
		{"Policies and virtual hosts", "policy_created", "policy_changed", "policy_deleted", "vhost_created", "vhost_changed", "vhost_deleted"},
		{"Clocks and quotas", "clock_stepped", "clock_jumped", "quota_reached", "quota_over"},
	} {
		group := kindGroup{Says: g[0]}
		for _, k := range g[1:] {
			group.Kinds = append(group.Kinds, kindChoice{k, is[k]})
		}
		all = append(all, group)
	}
	return all
}

// eventsPage is what the page of events begins with. The browser's script reads the rest from Feed.
type eventsPage struct {
	VHosts []string
	VHost  string
	Groups []kindGroup
	Chosen int // kinds; 0: all
	Feed   string
}

// loadEvents chooses a vhost for those who may not see the events of all.
func loadEvents(v *visit) (any, error) {
	names, err := v.vhosts()
	if err != nil {
		return nil, err
	}
	q := v.URL.Query()
	p := eventsPage{VHosts: names, VHost: q.Get("vhost"), Groups: kindGroups(q["kinds"]), Chosen: len(q["kinds"])}
	if p.VHost == "" && !v.Can("monitoring") && len(names) > 0 {
		p.VHost = names[0]
	}
	p.Feed = address("/ui/feed/events", "history", "true", "vhost", p.VHost, "name", q.Get("name"), "kinds", strings.Join(q["kinds"], ","))
	return p, nil
}

// logPage is what the page of the log begins with.
type logPage struct {
	Levels []string
	Nodes  []string
	Feed   string
}

// logLines is how many lines the page of the log begins with.
const logLines = 300

// loadLog asks for something that only administrators get, as the stream itself is not asked for here.
func loadLog(v *visit) (any, error) {
	if !v.Can("administrator") {
		return nil, errNotAdministrator
	}
	var nodes []nodeFigures
	if err := v.get(&nodes, "/api/nodes"); err != nil {
		return nil, err
	}
	q := v.URL.Query()
	p := logPage{
		Levels: []string{"debug", "info", "warn", "error"},
		Feed:   address("/ui/feed/log", "limit", logLines, "level", q.Get("level"), "contains", q.Get("contains"), "node", q.Get("node")),
	}
	for i := range nodes {
		p.Nodes = append(p.Nodes, nodes[i].Name)
	}
	return p, nil
}

// errNotAdministrator refuses a page whose parts the API would refuse.
var errNotAdministrator = &fault{Code: http.StatusForbidden, Kind: "not_authorized", Reason: "this page needs the tag administrator"}

// auditRecord is who has changed what.
type auditRecord struct {
	At    float64 `json:"at_ms"`
	Node  string  `json:"node"`
	VHost string  `json:"vhost"`
	Name  string  `json:"name"`
	Cause string  `json:"cause"`
	Audit struct {
		User      string `json:"user"`
		Mechanism string `json:"mechanism"`
		Protocol  string `json:"protocol"`
		Address   string `json:"address"`
		Client    string `json:"client"`
		Operation string `json:"operation"`
		Object    string `json:"object"`
		Outcome   string `json:"outcome"`
		Changes   []struct {
			Field  string `json:"field"`
			Before string `json:"before"`
			After  string `json:"after"`
		} `json:"changes"`
	} `json:"audit"`
}

// Badge is the colour of the outcome.
func (r *auditRecord) Badge() string {
	if r.Audit.Outcome == "done" {
		return "done"
	}
	return "failed"
}

// maxClient bounds what is shown of a client's name for itself, in characters: browsers have long ones.
const maxClient = 24

// Client is what the client calls itself.
func (r *auditRecord) Client() string {
	all := []rune(r.Audit.Client)
	if len(all) <= maxClient {
		return r.Audit.Client
	}
	return string(all[:maxClient]) + "…"
}

// auditPage are the newest audit records.
type auditPage struct {
	Records []*auditRecord `json:"records"` // the newest first
	Lost    uint64         `json:"lost"`
	VHosts  []string
	Limits  []string
	Limit   string
}

// auditLines is how many records are shown unless the address says otherwise.
const auditLines = "100"

func loadAudit(v *visit) (any, error) {
	names, err := v.vhosts()
	if err != nil {
		return nil, err
	}
	p := auditPage{Limits: []string{auditLines, "500", "2000"}, Limit: v.URL.Query().Get("limit")}
	if _, err := strconv.ParseUint(p.Limit, 10, 16); err != nil {
		p.Limit = auditLines
	}
	q := url.Values{"limit": {p.Limit}}
	for _, name := range []string{"vhost", "user", "name", "operation"} {
		if value := v.URL.Query().Get(name); value != "" {
			q.Set(name, value)
		}
	}
	err = v.list(&p, q, "/v1/audit")
	p.VHosts = names
	slices.Reverse(p.Records)
	return p, err
}
