package page

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// policyViews are the pages about policies.
func policyViews() []view {
	return []view{
		{path: "/ui/policies", file: "policies.html", title: "Policies", load: loadPolicies},
		{path: "/ui/policy", file: "policy.html", title: "Policy", load: loadPolicy},
		{path: "/ui/policy/new", file: "policy.html", title: "New policy", load: loadNewPolicy},
	}
}

// policyActions change policies.
func policyActions() []action {
	return []action{
		{path: "/ui/policy/put", does: putPolicy},
		{path: "/ui/policy/delete", asks: asksDeletePolicy, does: deletePolicy},
	}
}

// operatorKind is the word in addresses for operator policies; other policies have none.
const operatorKind = "operator"

// policyPath is the API's path of the policies of a kind, below its root.
func policyPath(kind string) string {
	if kind == operatorKind {
		return "operator-policies"
	}
	return "policies"
}

// policyRow is a policy in a list, and in its form.
type policyRow struct {
	Name       string         `json:"name"`
	VHost      string         `json:"vhost"`
	Pattern    string         `json:"pattern"`
	ApplyTo    string         `json:"apply-to"`
	Priority   int64          `json:"priority"`
	Definition map[string]any `json:"definition"`
}

// policiesPage is the list of policies of both kinds.
type policiesPage struct {
	Lists  []policyList
	VHosts []string
}

// policyList has the policies of one kind.
type policyList struct {
	Kind, Says, About string
	Page              listPage[*policyRow]
}

// policiesSize is the number of policies of each kind that the page shows.
const policiesSize = 500

// loadPolicies filters and sorts both kinds alike.
func loadPolicies(v *visit) (any, error) {
	p := policiesPage{Lists: []policyList{
		{Kind: "", Says: "Policies", About: "They give settings to queues and exchanges. Of those that match, the one with the highest priority applies."},
		{Kind: operatorKind, Says: "Operator policies", About: "They bound what users set, whatever the arguments and policies of a queue are."},
	}}
	var err error
	if p.VHosts, err = v.vhosts(); err != nil {
		return nil, err
	}
	q := v.listQuery()
	q.Set("page", "1")
	q.Set("page_size", strconv.Itoa(policiesSize))
	for i := range p.Lists {
		l := &p.Lists[i]
		if err := v.listOf(&l.Page, q, "/api/"+policyPath(l.Kind)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// policyPage is the form of a policy, with what saving it would change.
type policyPage struct {
	New                  bool
	Kind                 string
	VHosts               []string
	VHost, Name, Pattern string
	ApplyTo, Priority    string
	Definition           string // JSON, as it is entered
	May                  bool   // change policies of this kind
	Fault                string // what is wrong with what is entered
	Preview              *preview
}

// preview is what a change of a policy would do.
type preview struct {
	Looked    int `json:"looked"`
	Total     int `json:"total"`
	Matched   int `json:"matched"`
	Outranked int `json:"outranked"`
	Changed   int `json:"changed"`
	Things    []struct {
		Kind      string  `json:"kind"`
		Name      string  `json:"name"`
		Matched   bool    `json:"matched"`
		Outranked bool    `json:"outranked"`
		After     *string `json:"after"`
		Settings  []struct {
			Argument string  `json:"argument"`
			Before   *string `json:"before"`
			After    *string `json:"after"`
		} `json:"settings"`
	} `json:"things"`
}

// ApplyTos are the values of apply-to.
func (p policyPage) ApplyTos() []string {
	return []string{"all", "queues", "quorum_queues", "classic_queues", "exchanges"}
}

// Operator reports whether the policy is an operator policy.
func (p policyPage) Operator() bool { return p.Kind == operatorKind }

// mayPolicies reports whether the user may change policies of a kind.
func (v *visit) mayPolicies(kind string) bool {
	if kind == operatorKind {
		return v.Can("administrator")
	}
	return v.Can("policymaker")
}

// entered reads the form of a policy out of the address.
func (p *policyPage) entered(q url.Values) {
	p.VHost, p.Name, p.Pattern, p.ApplyTo = q.Get("vhost"), q.Get("name"), q.Get("pattern"), q.Get("apply-to")
	p.Priority, p.Definition = q.Get("priority"), q.Get("definition")
}

// loadPolicy shows a policy as it is, or as it is being changed: then the address has the whole form.
func loadPolicy(v *visit) (any, error) {
	q := v.URL.Query()
	p := policyPage{Kind: q.Get("kind")}
	var is policyRow
	if err := v.get(&is, "/api/"+policyPath(p.Kind)+"/%s/%s", q.Get("vhost"), q.Get("name")); err != nil {
		return nil, err
	}
	if q.Has("definition") {
		p.entered(q)
	} else {
		text, err := jsonText(is.Definition)
		if err != nil {
			return nil, err
		}
		p.VHost, p.Name, p.Pattern, p.ApplyTo = is.VHost, is.Name, is.Pattern, is.ApplyTo
		p.Priority, p.Definition = strconv.FormatInt(is.Priority, 10), text
	}
	if p.May = v.mayPolicies(p.Kind); !p.May {
		return p, nil
	}
	return p, p.preview(v)
}

// loadNewPolicy shows an empty form, or one that is being filled in.
func loadNewPolicy(v *visit) (any, error) {
	q := v.URL.Query()
	p := policyPage{New: true, Kind: q.Get("kind"), May: v.mayPolicies(q.Get("kind"))}
	p.entered(q)
	var err error
	if p.VHosts, err = v.vhosts(); err != nil || !q.Has("definition") {
		if p.VHost == "" && len(p.VHosts) > 0 {
			p.VHost = p.VHosts[0]
		}
		return p, err
	}
	if p.Definition == "" || p.Name == "" {
		return p, nil // nothing to look at yet
	}
	return p, p.preview(v)
}

// preview asks what the form would change. What is wrong with a form that is still being filled in is part of the page.
func (p *policyPage) preview(v *visit) error {
	body, err := policyBody(p.Pattern, p.ApplyTo, p.Priority, p.Definition)
	if err == nil {
		err = v.change(http.MethodPost, body, &p.Preview, "/v1/"+policyPath(p.Kind)+"/%s/%s/preview", p.VHost, p.Name)
	}
	if wrong(err) {
		p.Fault, err = err.Error(), nil
	}
	return err
}

// policyBody is what the API takes of a policy's form.
func policyBody(pattern, applyTo, priority, definition string) (map[string]any, error) {
	table, err := parseObject("definition", definition)
	if priority == "" {
		priority = "0"
	}
	return map[string]any{"pattern": pattern, "apply-to": applyTo, "priority": priority, "definition": table}, err
}

// putPolicy makes no policy that would replace another one unseen.
func putPolicy(v *visit) (outcome, error) {
	kind, vhost, name := v.FormValue("kind"), v.FormValue("vhost"), v.FormValue("name")
	body, err := policyBody(v.FormValue("pattern"), v.FormValue("apply-to"), v.FormValue("priority"), v.FormValue("definition"))
	if err != nil {
		return outcome{}, err
	}
	path := "/api/" + policyPath(kind) + "/%s/%s"
	if v.flag("new") {
		err := v.get(nil, path, vhost, name)
		if err == nil {
			return outcome{}, badForm("name", "there is a policy "+strconv.Quote(name)+" already; open it to change it")
		}
		if !missing(err) {
			return outcome{}, err
		}
	}
	err = v.change(http.MethodPut, body, nil, path, vhost, name)
	return outcome{address("/ui/policies", "vhost", v.FormValue("list")), "Policy " + name + " is saved, and in force."}, err
}

// questionLines is how many lines of a plan a question shows.
const questionLines = 20

// asksDeletePolicy shows which settings change.
func asksDeletePolicy(v *visit) (question, error) {
	kind, vhost, name := v.FormValue("kind"), v.FormValue("vhost"), v.FormValue("name")
	q := question{
		Title: "Delete policy " + name + "?", Name: name, Button: "Delete",
		Back: address("/ui/policy", "kind", kind, "vhost", vhost, "name", name),
	}
	var p preview
	err := v.change(http.MethodPost, map[string]any{"delete": true}, &p, "/v1/"+policyPath(kind)+"/%s/%s/preview", vhost, name)
	if err != nil {
		return question{}, err
	}
	switch {
	case p.Looked < p.Total:
		q.Lines = append(q.Lines, fmt.Sprintf("%s or more get other settings: only %s of %s could be looked at in time.", plural(p.Changed, "queue or exchange"), count(p.Looked), count(p.Total)))
	case p.Changed == 0:
		q.Lines = append(q.Lines, "The settings of no queue or exchange change.")
	default:
		q.Lines = append(q.Lines, "Settings change of "+plural(p.Changed, "object")+", at once. Lower limits drop messages.")
	}
	for _, t := range p.Things {
		if len(t.Settings) == 0 {
			continue
		}
		if len(q.Lines) > questionLines {
			q.Lines = append(q.Lines, "and more")
			break
		}
		line := t.Kind + " " + t.Name + ":"
		for _, s := range t.Settings {
			line += " " + s.Argument + " " + orNone(s.Before) + " → " + orNone(s.After)
		}
		q.Lines = append(q.Lines, line)
	}
	return q, nil
}

// orNone shows a setting; nil is one that is not set.
func orNone(text *string) string {
	if text == nil {
		return "not set"
	}
	return *text
}

// deletePolicy changes settings at once, which is why it asks first.
func deletePolicy(v *visit) (outcome, error) {
	vhost, name := v.FormValue("vhost"), v.FormValue("name")
	err := v.change(http.MethodDelete, nil, nil, "/api/"+policyPath(v.FormValue("kind"))+"/%s/%s", vhost, name)
	return outcome{"/ui/policies", "Policy " + name + " is deleted."}, err
}
