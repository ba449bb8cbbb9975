package page

import (
	"net/http"
	"slices"
	"strconv"
)

// queueMember is a member of a queue as it sees itself. A node that did not answer has no figures.
type queueMember struct {
	Node     string  `json:"Node Name"`
	State    string  `json:"Raft State"`
	Term     *uint64 `json:"Term"`
	Last     *uint64 `json:"Last Log Index"`
	Commit   *uint64 `json:"Commit Index"`
	Applied  *uint64 `json:"Last Applied"`
	Snapshot *uint64 `json:"Snapshot Index"`
	Trouble  string  `json:"Trouble"`
	// Lag is how many entries of the leader's log it lacks; nil: it is not known.
	Lag *uint64 `json:"-"`
}

// membersPage is what the page about a queue's members shows.
type membersPage struct {
	Queue   queueRow
	Members []queueMember
	Others  []string // nodes that may become members
}

func loadMembers(v *visit) (any, error) {
	var p membersPage
	var err error
	if p.Queue, err = v.getQueue(); err != nil {
		return nil, err
	}
	vhost, name := v.thisQueue()
	if err := v.get(&p.Members, "/api/queues/quorum/%s/%s/status", vhost, name); err != nil {
		return nil, err
	}
	p.addLags()
	if v.byScript() || !v.Can("administrator") {
		return &p, nil
	}
	var nodes []nodeFigures
	err = v.get(&nodes, "/api/nodes")
	for _, n := range nodes {
		if !slices.Contains(p.Queue.Members, n.Name) {
			p.Others = append(p.Others, n.Name)
		}
	}
	return &p, err
}

// addLags compares each log with the leader's. The members are asked one after another, so a lag of a few entries
// does not count.
func (p *membersPage) addLags() {
	at := slices.IndexFunc(p.Members, func(m queueMember) bool { return m.State == "leader" })
	if at < 0 || p.Members[at].Last == nil {
		return
	}
	last := *p.Members[at].Last
	for i := range p.Members {
		if m := &p.Members[i]; m.Last != nil {
			lag := last - min(last, *m.Last)
			m.Lag = &lag
		}
	}
}

// transferLeader asks nothing before: the queue stays as it is, and the leadership is as quickly moved back.
func transferLeader(v *visit) (outcome, error) {
	vhost, name := v.thisQueue()
	node := v.PostFormValue("node")
	if node == "" { // the API would let the leader choose
		return outcome{}, badForm("node", "is empty; name a member of the queue")
	}
	err := v.change(http.MethodPost, map[string]string{"node": node}, nil, "/v1/queues/%s/%s/leader", vhost, name)
	return outcome{v.aboutQueue("/ui/queue/members"), "The leadership was handed to node " + node + "."}, err
}

// addMember makes a node a member.
func addMember(v *visit) (outcome, error) {
	vhost, name := v.thisQueue()
	var out begun
	err := v.change(http.MethodPost, map[string]string{"node": v.PostFormValue("node")}, &out, "/api/queues/quorum/%s/%s/replicas/add", vhost, name)
	return v.leadsTo(&out, v.aboutQueue("/ui/queue/members")), err
}

func asksRemoveMember(v *visit) (question, error) {
	node := v.FormValue("node")
	_, name := v.thisQueue()
	var p begun
	err := v.removeMember("?dry_run=true", &p)
	return question{
		Title: "Take node " + node + " out of queue " + strconv.Quote(name) + "?", Plan: p.shortened(), Name: node, Button: "Remove the member",
		Back: v.aboutQueue("/ui/queue/members"),
	}, err
}

// removeMember sends the request to remove a member, with a query.
func (v *visit) removeMember(query string, out any) error {
	vhost, name := v.thisQueue()
	return v.change(http.MethodDelete, map[string]string{"node": v.FormValue("node")}, out, "/api/queues/quorum/%s/%s/replicas/delete"+query, vhost, name)
}

func removeMember(v *visit) (outcome, error) {
	var out begun
	err := v.removeMember("", &out)
	return v.leadsTo(&out, v.aboutQueue("/ui/queue/members")), err
}
