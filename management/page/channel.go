package page

// channelViews are the pages about channels.
func channelViews() []view {
	return []view{{path: "/ui/channels", file: "channels.html", title: "Channels", load: loadChannels}}
}

// channelRow is a channel of a client's connection.
type channelRow struct {
	Name        string  `json:"name"`
	Number      int     `json:"number"`
	Node        string  `json:"node"`
	VHost       string  `json:"vhost"`
	User        string  `json:"user"`
	State       string  `json:"state"`
	Confirms    bool    `json:"confirm"`
	Transacts   bool    `json:"transactional"`
	Prefetch    int     `json:"prefetch_count"` // 0: no limit
	Consumers   *int    `json:"consumer_count"`
	Unacked     *uint64 `json:"messages_unacknowledged"`
	Unconfirmed *uint64 `json:"messages_unconfirmed"`
	Connection  struct {
		Name string `json:"name"`
	} `json:"connection_details"`
}

// Mode is how publishes on the channel are answered.
func (c *channelRow) Mode() string {
	switch {
	case c.Transacts:
		return "transactions"
	case c.Confirms:
		return "confirms"
	}
	return "no answers"
}

// Badge is the colour of the channel's state.
func (c *channelRow) Badge() string {
	if c.State == "running" {
		return "done"
	}
	return "running" // held back, or closing
}

// channelsPage is the list of channels.
type channelsPage struct {
	Page   listPage[*channelRow]
	VHosts []string
}

func loadChannels(v *visit) (any, error) {
	var p channelsPage
	var err error
	if p.VHosts, err = v.vhosts(); err != nil {
		return nil, err
	}
	if vhost := v.URL.Query().Get("vhost"); vhost != "" {
		return &p, v.list(&p.Page, v.listQuery(), "/api/vhosts/%s/channels", vhost)
	}
	return &p, v.list(&p.Page, v.listQuery(), "/api/channels")
}
