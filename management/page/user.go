package page

import (
	"net/http"
	"slices"
)

// userViews are the pages about users, for administrators.
func userViews() []view {
	return []view{
		{path: "/ui/users", file: "users.html", title: "Users", load: loadUsers},
		{path: "/ui/user", file: "user.html", title: "User", load: loadUser},
	}
}

// userActions change users.
func userActions() []action {
	return []action{
		{path: "/ui/users/add", does: addUser},
		{path: "/ui/user/tags", does: setTags},
		{path: "/ui/user/password", does: setPassword},
		{path: "/ui/user/password/remove", asks: asksRemovePassword, does: removePassword},
		{path: "/ui/user/delete", asks: asksDeleteUser, does: deleteUser},
	}
}

// userRow is a user in a list, and the head of its page.
type userRow struct {
	Name      string   `json:"name"`
	Tags      []string `json:"tags"`
	Algorithm string   `json:"hashing_algorithm"` // of the password; "": it has none
	VHosts    []string `json:"-"`                 // that it may use
}

// usersPage is the list of users.
type usersPage struct {
	Page   listPage[*userRow]
	VHosts []string
	Tags   []userTag
}

// userTag is a tag with a meaning.
type userTag struct{ Name, Says string }

// userTags are the tags that have a meaning.
func userTags() []userTag {
	return []userTag{
		{"administrator", "does everything"},
		{"monitoring", "sees everything"},
		{"policymaker", "changes policies where it has a permission"},
		{"management", "sees what is in its virtual hosts"},
		{"impersonator", "publishes with any user id"},
	}
}

// loadUsers costs two requests, whatever the length of the list.
func loadUsers(v *visit) (any, error) {
	p := usersPage{Tags: userTags()}
	var err error
	if err = v.list(&p.Page, v.listQuery(), "/api/users"); err != nil {
		return nil, err
	}
	if p.VHosts, err = v.vhosts(); err != nil {
		return nil, err
	}
	var may []permissionRow
	if err = v.get(&may, "/api/permissions"); err != nil {
		return nil, err
	}
	vhosts := map[string][]string{}
	for i := range may {
		vhosts[may[i].User] = append(vhosts[may[i].User], may[i].VHost)
	}
	for _, u := range p.Page.Items {
		u.VHosts = vhosts[u.Name]
	}
	return p, nil
}

// userPage is what the page about one user shows.
type userPage struct {
	User        userRow
	Tags        []userTag
	Free        []string // tags without a meaning
	Limits      []limitRow
	Permissions permissionsPart
	Self        bool // the user looks at itself
}

// aboutUser is the address of the page about a user.
func aboutUser(name string) string { return address("/ui/user", "name", name) }

// loadUser leaves tags that have no meaning as they are.
func loadUser(v *visit) (any, error) {
	p := userPage{Tags: userTags()}
	name := v.URL.Query().Get("name")
	err := v.get(&p.User, "/api/users/%s", name)
	if err != nil {
		return nil, err
	}
	p.Self = name == v.who.Name
	for _, tag := range p.User.Tags {
		if !slices.ContainsFunc(p.Tags, func(t userTag) bool { return t.Name == tag }) {
			p.Free = append(p.Free, tag)
		}
	}
	if err := v.get(&p.Limits, "/v1/users/%s/usage", name); err != nil {
		return nil, err
	}
	p.Permissions, err = v.permissionsOf("user", name)
	return p, err
}

// enteredTags are the tags that are ticked, and those that were typed.
func (v *visit) enteredTags() []string {
	tags := append(v.words("tags"), v.Form["tag"]...)
	slices.Sort(tags)
	return slices.Compact(tags)
}

// addUser replaces no user that is there.
func addUser(v *visit) (outcome, error) {
	name := v.FormValue("name")
	err := v.get(nil, "/api/users/%s", name)
	if err == nil {
		return outcome{}, badForm("name", "there is a user of this name already; open it to change it")
	}
	if !missing(err) {
		return outcome{}, err
	}
	body := map[string]any{"tags": v.enteredTags()}
	if password := v.PostFormValue("password"); password != "" {
		body["password"] = password
	} else if !v.flag("without") {
		return outcome{}, badForm("password", "is empty; tick the box for a user without a password")
	}
	if err := v.change(http.MethodPut, body, nil, "/api/users/%s", name); err != nil {
		return outcome{}, err
	}
	said := "The user is there. It has no permission yet: give it one for each virtual host that it may use."
	if vhost := v.FormValue("vhost"); vhost != "" {
		said = "The user is there, and may do everything in " + vhost + "."
		all := map[string]any{"configure": ".*", "write": ".*", "read": ".*"}
		err = v.change(http.MethodPut, all, nil, "/api/permissions/%s/%s", vhost, name)
	} else {
		err = nil
	}
	return outcome{aboutUser(name), said}, err
}

// setTags leaves the password alone.
func setTags(v *visit) (outcome, error) {
	name := v.FormValue("name")
	err := v.change(http.MethodPut, map[string]any{"tags": v.enteredTags()}, nil, "/v1/users/%s/tags", name)
	return outcome{aboutUser(name), "The tags are saved."}, err
}

// setPassword wants the password twice, as nobody sees what is typed.
func setPassword(v *visit) (outcome, error) {
	name, password := v.FormValue("name"), v.PostFormValue("password")
	if password != v.PostFormValue("again") {
		return outcome{}, badForm("again", "the passwords are not the same")
	}
	err := v.change(http.MethodPut, map[string]any{"password": password}, nil, "/v1/users/%s/password", name)
	return outcome{aboutUser(name), "The password is set."}, err
}

// asksRemovePassword asks for the name: only who knows the password could set the same again.
func asksRemovePassword(v *visit) (question, error) {
	name := v.FormValue("name")
	return question{
		Title: "Remove the password of " + name + "?", Name: name, Button: "Remove", Back: aboutUser(name),
		Lines: []string{"The user can log in by certificate or token alone, until a password is set again."},
	}, v.get(nil, "/api/users/%s", name)
}

// removePassword is refused for the last administrator.
func removePassword(v *visit) (outcome, error) {
	name := v.FormValue("name")
	err := v.change(http.MethodDelete, nil, nil, "/v1/users/%s/password", name)
	return outcome{aboutUser(name), "The password is removed."}, err
}

// asksDeleteUser counts what goes with the user, and what stays.
func asksDeleteUser(v *visit) (question, error) {
	name := v.FormValue("name")
	q := question{Title: "Delete user " + name + "?", Name: name, Button: "Delete", Back: aboutUser(name)}
	connections, err := v.howMany("/api/connections/username/%s", name)
	if err != nil {
		return q, err
	}
	var limits []limitRow
	if err := v.get(&limits, "/v1/users/%s/usage", name); err != nil {
		return q, err
	}
	permissions, err := v.howMany("/api/users/%s/permissions", name)
	if err != nil {
		return q, err
	}
	q.Lines = append(q.Lines, plural(permissions, "permission")+" and its limits go with it.", "Connections that are closed: "+count(connections))
	for i := range limits {
		if limits[i].Name == "max-queues" {
			q.Lines = append(q.Lines, "Queues that it has declared: "+limits[i].Uses()+". They stay, and count for nobody.")
		}
	}
	if name == v.who.Name {
		q.Lines = append(q.Lines, "This is you: your own session ends.")
	}
	return q, nil
}

// deleteUser is refused for the last administrator.
func deleteUser(v *visit) (outcome, error) {
	name := v.FormValue("name")
	err := v.change(http.MethodDelete, nil, nil, "/api/users/%s", name)
	return outcome{"/ui/users", "User " + name + " is deleted."}, err
}
