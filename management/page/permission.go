package page

import "net/http"

// permissionActions change what users may do.
func permissionActions() []action {
	return []action{
		{path: "/ui/permission/set", does: setPermission},
		{path: "/ui/permission/clear", asks: asksClearPermission, does: clearPermission},
		{path: "/ui/topic-permission/set", does: setTopicPermission},
		{path: "/ui/topic-permission/clear", asks: asksClearTopicPermission, does: clearTopicPermission},
	}
}

// permissionRow is what a user may do in a vhost.
type permissionRow struct {
	User      string `json:"user"`
	VHost     string `json:"vhost"`
	Configure string `json:"configure"`
	Write     string `json:"write"`
	Read      string `json:"read"`
}

// topicPermissionRow is which routing keys a user may use at an exchange.
type topicPermissionRow struct {
	User     string `json:"user"`
	VHost    string `json:"vhost"`
	Exchange string `json:"exchange"`
	Write    string `json:"write"`
	Read     string `json:"read"`
}

// permissionsPart is the part of a page about the permissions of one user, or in one vhost.
type permissionsPart struct {
	Of, Name string   // user or vhost, and which
	Others   []string // what can be chosen beside it: vhosts, or users
	All      []permissionRow
	Topics   []topicPermissionRow
	// Edit and EditTopic are what the forms begin with: all, or what the address asks to change, in which case the form
	// is open. At and AtTopic are the vhosts, or users, that they are about.
	Edit            permissionRow
	EditTopic       topicPermissionRow
	At, AtTopic     string
	Open, OpenTopic bool
}

// edit fills the forms with what the address asks to change.
func (p *permissionsPart) edit(v *visit) {
	const all = ".*"
	p.Edit = permissionRow{Configure: all, Write: all, Read: all}
	p.EditTopic = topicPermissionRow{Exchange: "amq.topic", Write: all, Read: all}
	q := v.URL.Query()
	p.At, p.AtTopic = q.Get("permission"), q.Get("topic")
	at := func(user, vhost string) string {
		if p.OfUser() {
			return vhost
		}
		return user
	}
	for _, x := range p.All {
		if at(x.User, x.VHost) == p.At {
			p.Edit, p.Open = x, true
		}
	}
	for _, x := range p.Topics {
		if at(x.User, x.VHost) == p.AtTopic && x.Exchange == q.Get("exchange") {
			p.EditTopic, p.OpenTopic = x, true
		}
	}
}

// OfUser reports whether the part is on the page about a user.
func (p permissionsPart) OfUser() bool { return p.Of == "user" }

// permissionsOf asks for the permissions of a user or in a vhost.
func (v *visit) permissionsOf(of, name string) (permissionsPart, error) {
	p := permissionsPart{Of: of, Name: name}
	if err := v.get(&p.All, "/api/"+of+"s/%s/permissions", name); err != nil {
		return p, err
	}
	if err := v.get(&p.Topics, "/api/"+of+"s/%s/topic-permissions", name); err != nil {
		return p, err
	}
	p.edit(v)
	var err error
	if p.OfUser() {
		p.Others, err = v.vhosts()
		return p, err
	}
	var users []userRow
	err = v.get(&users, "/api/users?columns=name")
	for i := range users {
		p.Others = append(p.Others, users[i].Name)
	}
	return p, err
}

// backToPermissions is the page whose form was sent: that of the user, or that of the vhost.
func (v *visit) backToPermissions() string {
	if v.FormValue("of") == "vhost" {
		return aboutVHost(v.FormValue("vhost"))
	}
	return aboutUser(v.FormValue("user"))
}

// setPermission replaces what the user had there: a permission is all three patterns.
func setPermission(v *visit) (outcome, error) {
	body := map[string]any{"configure": v.FormValue("configure"), "write": v.FormValue("write"), "read": v.FormValue("read")}
	err := v.change(http.MethodPut, body, nil, "/api/permissions/%s/%s", v.FormValue("vhost"), v.FormValue("user"))
	return outcome{v.backToPermissions(), "The permission is set."}, err
}

// asksClearPermission shows what is lost, and asks for the name of the user.
func asksClearPermission(v *visit) (question, error) {
	vhost, user := v.FormValue("vhost"), v.FormValue("user")
	var p permissionRow
	err := v.get(&p, "/api/permissions/%s/%s", vhost, user)
	return question{
		Title: "Keep " + user + " out of " + vhost + "?", Name: user, Button: "Clear the permission", Back: v.backToPermissions(),
		Lines: []string{
			"The user may configure “" + p.Configure + "”, write “" + p.Write + "” and read “" + p.Read + "” there.",
			"Nothing of it is allowed any more, and no new connection to the virtual host.",
		},
	}, err
}

func clearPermission(v *visit) (outcome, error) {
	err := v.change(http.MethodDelete, nil, nil, "/api/permissions/%s/%s", v.FormValue("vhost"), v.FormValue("user"))
	return outcome{v.backToPermissions(), "The permission is cleared."}, err
}

// setTopicPermission replaces the one at the same exchange.
func setTopicPermission(v *visit) (outcome, error) {
	body := map[string]any{"exchange": v.FormValue("exchange"), "write": v.FormValue("write"), "read": v.FormValue("read")}
	err := v.change(http.MethodPut, body, nil, "/api/topic-permissions/%s/%s", v.FormValue("vhost"), v.FormValue("user"))
	return outcome{v.backToPermissions(), "The topic permission is set."}, err
}

// asksClearTopicPermission warns of what is easily misread: without a topic permission a user may use all keys.
func asksClearTopicPermission(v *visit) (question, error) {
	user, exchange := v.FormValue("user"), v.FormValue("exchange")
	return question{
		Title: "Clear the topic permission of " + user + " at " + exchange + "?", Name: user, Button: "Clear the topic permission", Back: v.backToPermissions(),
		Lines: []string{"From then on the user may publish and bind with every routing key there, as far as its permission in the virtual host allows."},
	}, nil
}

func clearTopicPermission(v *visit) (outcome, error) {
	err := v.change(http.MethodDelete, nil, nil, "/api/topic-permissions/%s/%s/%s", v.FormValue("vhost"), v.FormValue("user"), v.FormValue("exchange"))
	return outcome{v.backToPermissions(), "The topic permission is cleared."}, err
}
