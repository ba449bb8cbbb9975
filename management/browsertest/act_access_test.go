package browsertest

import (
	"context"
	"iter"
	"slices"

	"github.com/quorate/quorate/client"
)

// user is nil if a user is as wanted: see the.
func user(ctx context.Context, c *client.Client, name string, wanted func(u client.UserInfo) bool) error {
	return the(c.Users(ctx), func(u client.UserInfo) bool { return u.Name == name }, wanted)
}

// the is nil if the one of a list that is meant is as wanted; a zero value is one that is not there.
func the[T any](list iter.Seq2[T, error], meant, wanted func(T) bool) error {
	var found T
	for one, err := range list {
		if err != nil {
			return err
		}
		if meant(one) {
			found = one
		}
	}
	return so(nil, wanted(found), found)
}

// tagged reports whether a user has these tags, and no others.
func tagged(tags ...string) func(u client.UserInfo) bool {
	return func(u client.UserInfo) bool { return slices.Equal(slices.Sorted(slices.Values(u.Tags)), tags) }
}

// annLogsIn is nil if the user ann can log in with a password.
func annLogsIn(ctx context.Context, c *client.Client, password string) error {
	const name = "ann"
	own, err := client.New(client.Config{Addresses: c.Addresses(), Username: name, Password: password})
	if err != nil {
		return err
	}
	defer own.Close()
	who, err := own.WhoAmI(ctx)
	return so(err, who.User == name, who)
}

// limited is nil if a limit of a user has a value; 0: none.
func limited(limit *int64, want int64) error {
	return so(nil, limit == nil && want == 0 || limit != nil && *limit == want, limit)
}

// userGroup makes a user, changes and deletes it.
func userGroup() group {
	const ann = "/ui/user?name=ann"
	return group{func(*served, *client.Client) {}, []act{
		{
			name: "add", at: "/ui/users", path: "/ui/users/add", says: "The user is there.",
			click: func(x *tab) {
				x.click("details.declare summary")
				x.fill("#u-name", "ann")
				x.fill("#u-password", "first")
				x.click(".declare input[name=tag][value=management]")
				x.fill("#u-tags", "team-a")
				x.click(".declare button.main")
			},
			effect: func(ctx context.Context, c *client.Client) error {
				return all(user(ctx, c, "ann", tagged("management", "team-a")), annLogsIn(ctx, c, "first"))
			},
		},
		{
			name: "set tags", at: ann, path: "/ui/user/tags", says: "The tags are saved.",
			click: func(x *tab) {
				x.click(`form[action="/ui/user/tags"] input[value=monitoring]`)
				x.click(`form[action="/ui/user/tags"] input[value=management]`)
				x.click(`form[action="/ui/user/tags"] button`)
			},
			effect: func(ctx context.Context, c *client.Client) error {
				return all(user(ctx, c, "ann", tagged("monitoring", "team-a")), annLogsIn(ctx, c, "first"))
			},
		},
		{
			name: "set the password", at: ann, path: "/ui/user/password", says: "The password is set.",
			click: func(x *tab) {
				x.fill("#u-password", "second")
				x.fill("#u-again", "second")
				x.click(`form[action="/ui/user/password"] button`)
			},
			effect: func(ctx context.Context, c *client.Client) error { return annLogsIn(ctx, c, "second") },
		},
		{
			name: "set limits", at: ann, path: "/ui/user/limits", says: "Limits changed: 1.",
			click: func(x *tab) {
				x.fill("input[name=max-connections]", "5")
				x.click(`form[action="/ui/user/limits"] button`)
			},
			effect: func(ctx context.Context, c *client.Client) error {
				return user(ctx, c, "ann", func(u client.UserInfo) bool { return u.Limits != nil && limited(u.Limits.MaxConnections, 5) == nil })
			},
		},
		{
			name: "remove the password", at: ann, path: "/ui/user/password/remove", typed: "ann", says: "The password is removed.",
			click: func(x *tab) { x.click(`main a[href^="/ui/user/password/remove"]`) },
			asks:  []string{"The user can log in by certificate or token alone"},
			effect: func(ctx context.Context, c *client.Client) error {
				return user(ctx, c, "ann", func(u client.UserInfo) bool { return u.Name != "" && u.HashingAlgorithm == "" })
			},
		},
		{
			name: "delete", at: ann, path: "/ui/user/delete", typed: "ann", says: "User ann is deleted.",
			click: func(x *tab) { x.click(`main a[href^="/ui/user/delete"]`) },
			asks:  []string{"0 permissions and its limits go with it.", "Connections that are closed: 0", "Queues that it has declared: 0"},
			effect: func(ctx context.Context, c *client.Client) error {
				return user(ctx, c, "ann", func(u client.UserInfo) bool { return u.Name == "" })
			},
		},
	}}
}

// permissionGroup gives a user permissions and takes them back, from the page about the user and that about the vhost.
func permissionGroup() group {
	permission := func(want ...client.Permission) func(ctx context.Context, c *client.Client) error {
		return func(ctx context.Context, c *client.Client) error {
			has, err := client.Collect(c.Permissions(ctx, client.ListPermissionsRequest{User: "ann"}))
			return so(err, slices.Equal(has, want), has)
		}
	}
	topic := func(want ...client.TopicPermission) func(ctx context.Context, c *client.Client) error {
		return func(ctx context.Context, c *client.Client) error {
			has, err := client.Collect(c.TopicPermissions(ctx, client.ListPermissionsRequest{User: "ann"}))
			return so(err, slices.Equal(has, want), has)
		}
	}
	const ann, team = "/ui/user?name=ann", "/ui/vhost?name=team"
	own := client.Permission{User: "ann", VHost: "team", Configure: ".*", Write: "^orders", Read: ".*"}
	other := own
	other.Write = "^bills"
	return group{
		func(s *served, c *client.Client) {
			s.addUser("ann", "management")
			if _, err := c.PutVHost(s.t.Context(), client.VHost{Name: "team"}); err != nil {
				s.t.Fatal(err)
			}
		}, []act{
			{
				name: "set", at: ann, path: "/ui/permission/set", says: "The permission is set.",
				click: func(x *tab) {
					x.click("#permission summary")
					x.choose("#m-vhost", "team")
					x.fill("#m-write", "^orders")
					x.click("#permission button.main")
				},
				effect: permission(own),
			},
			{
				name: "change", at: team, path: "/ui/permission/set", says: "The permission is set.",
				click: func(x *tab) {
					x.click(`main a[href*="permission=ann"]`)
					x.await(`document.readyState === "complete" && document.querySelector("#permission").open && document.querySelector("#m-write").value === "^orders"`)
					x.fill("#m-write", "^bills")
					x.click("#permission button.main")
				},
				effect: permission(other),
			},
			{
				name: "set for topics", at: ann, path: "/ui/topic-permission/set", says: "The topic permission is set.",
				click: func(x *tab) {
					x.click("#topic-permission summary")
					x.choose("#t-vhost", "team")
					x.fill("#t-write", "^order")
					x.click("#topic-permission button.main")
				},
				effect: topic(client.TopicPermission{User: "ann", VHost: "team", Exchange: "amq.topic", Write: "^order", Read: ".*"}),
			},
			{
				name: "clear for topics", at: ann, path: "/ui/topic-permission/clear", typed: "ann", says: "The topic permission is cleared.",
				click: func(x *tab) { x.click(`main a[href^="/ui/topic-permission/clear"]`) },
				asks:  []string{"From then on the user may publish and bind with every routing key there"}, effect: topic(),
			},
			{
				name: "clear", at: team, path: "/ui/permission/clear", typed: "ann", says: "The permission is cleared.",
				click: func(x *tab) { x.click(`main a[href^="/ui/permission/clear"][href*="user=ann"]`) },
				asks:  []string{"The user may configure “.*”", "Nothing of it is allowed any more"}, effect: permission(),
			},
		},
	}
}

// vhost is nil if a vhost is as wanted: see the.
func vhost(name string, wanted func(h client.VHost) bool) func(ctx context.Context, c *client.Client) error {
	return func(ctx context.Context, c *client.Client) error {
		return the(c.VHosts(ctx), func(h client.VHost) bool { return h.Name == name }, wanted)
	}
}

// vhostGroup makes a vhost, changes and protects it, and deletes one with all that is in it.
func vhostGroup() group {
	const team, old = "/ui/vhost?name=team", "/ui/vhost?name=old"
	protect := func(x *tab) { x.click(`form[action="/ui/vhost/protect"] button`) }
	return group{
		func(s *served, c *client.Client) {
			_, put := c.PutVHost(s.t.Context(), client.VHost{Name: "old"})
			_, allowed := c.SetPermission(s.t.Context(), client.Permission{User: "guest", VHost: "old", Configure: ".*", Write: ".*", Read: ".*"})
			_, declared := c.DeclareQueue(s.t.Context(), client.Queue{VHost: "old", Name: "q"})
			if err := all(put, allowed, declared); err != nil {
				s.t.Fatal(err)
			}
		}, []act{
			{
				name: "add", at: "/ui/vhosts", path: "/ui/vhosts/add", says: "The virtual host is there",
				click: func(x *tab) {
					x.click("details.declare summary")
					x.fill("#v-name", "team")
					x.fill("#v-description", "of the team")
					x.click(".declare button.main")
				},
				effect: vhost("team", func(h client.VHost) bool { return h.Description == "of the team" }),
			},
			{
				name: "change", at: team, path: "/ui/vhost/change", says: "The settings are saved.",
				click: func(x *tab) {
					x.click("input[name=merges]")
					x.click(`form[action="/ui/vhost/change"] button`)
				},
				effect: vhost("team", func(h client.VHost) bool { return h.MergePolicies && h.Description == "of the team" }),
			},
			{
				name: "set limits", at: team, path: "/ui/vhost/limits", says: "Limits changed: 1.",
				click: func(x *tab) {
					x.fill("input[name=max-queues]", "7")
					x.click(`form[action="/ui/vhost/limits"] button`)
				},
				effect: vhost("team", func(h client.VHost) bool { return limited(h.Limits.MaxQueues, 7) == nil }),
			},
			{
				name: "protect", at: old, path: "/ui/vhost/protect", says: "The virtual host is protected from deletion.", click: protect,
				effect: vhost("old", func(h client.VHost) bool { return h.Protected }),
			},
			{
				name: "end the protection", at: old, path: "/ui/vhost/protect", says: "The virtual host can be deleted now.", click: protect,
				effect: vhost("old", func(h client.VHost) bool { return h.Name == "old" && !h.Protected }),
			},
			{
				name: "delete", at: old, path: "/ui/vhost/delete", typed: "old", says: "Virtual host old is deleted.",
				click:  func(x *tab) { x.click(`main a[href^="/ui/vhost/delete"]`) },
				asks:   []string{"Queues that go with it: 1", "Users that lose their permissions here: 1", "Its limits go too."},
				effect: vhost("old", func(h client.VHost) bool { return h.Name == "" }),
			},
		},
	}
}
