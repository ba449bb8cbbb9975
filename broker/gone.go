package broker

// CatalogChanged returns a channel that is closed when this node sees another catalog than now;
// nil while the node starts. Any goroutine may call it.
func (b *Broker) CatalogChanged() <-chan struct{} {
	c := b.cluster.Load()
	if c == nil {
		return nil
	}
	return c.ViewChanged()
}

// Gone tells why a connection of the user to the vhost has to end: one of both was deleted
// (VH-2), or the node is cut off. It is "" while they are there, or the node starts; a user "" is
// nobody who logged in. Any goroutine may call it.
func (b *Broker) Gone(user, vhost string) string {
	if why := b.cutOff(); why != "" {
		return why
	}
	v := b.view()
	if v == nil {
		return ""
	}
	if _, there := v.VHost(vhost); !there {
		return "vhost '" + vhost + "' was deleted"
	}
	if _, there := v.User(user); !there && user != "" {
		return "user '" + user + "' was deleted"
	}
	return ""
}
