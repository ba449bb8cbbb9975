package connections

import "context"

// CatalogChanged returns a channel that is closed when this node gets a newer view of the catalog. Any goroutine may
// call it.
func (cs *Connections) CatalogChanged() <-chan struct{} {
	return cs.cluster.ViewChanged()
}

// Gone returns why the caller's connection to a vhost must end: the vhost or the user was deleted (VH-2), or the node
// is cut off. It returns "" if the connection may go on. Any goroutine may call it.
func (cs *Connections) Gone(ctx context.Context, vhost string) string {
	if why := cs.serving.WhyCutOff(); why != "" {
		return why
	}
	v := cs.view()
	if _, there := v.VHost(vhost); !there {
		return "vhost '" + vhost + "' was deleted"
	}
	who, err := cs.logins.Who(ctx)
	if err != nil || who == nil || who.External() { // there is no user, or not one of the catalog; WatchLogin reports the end of a login
		return ""
	}
	if _, there := v.User(who.User()); !there {
		return "user '" + who.User() + "' was deleted"
	}
	return ""
}
