package page

// overviewViews are the pages about the whole cluster.
func overviewViews() []view {
	return []view{{path: "/ui/{$}", file: "overview.html", title: "Overview", load: loadOverview}}
}

// overviewPage is what the overview shows before the live feed begins.
type overviewPage struct {
	Cluster string `json:"cluster_name"`
	Version string `json:"product_version"`
	Objects struct {
		Queues      int `json:"queues"`
		Connections int `json:"connections"`
		Consumers   int `json:"consumers"`
	} `json:"object_totals"`
	Queued struct {
		Ready   uint64 `json:"messages_ready"`
		Unacked uint64 `json:"messages_unacknowledged"`
	} `json:"queue_totals"`
	Stats messageStats `json:"message_stats"`

	Nodes  []nodeFigures
	Alarms []string
}

// messageStats are the rates of a queue or of the cluster.
type messageStats struct {
	Publish   perSecond `json:"publish_details"`
	Confirm   perSecond `json:"confirm_details"`
	Deliver   perSecond `json:"deliver_get_details"`
	Ack       perSecond `json:"ack_details"`
	Redeliver perSecond `json:"redeliver_details"`
}

// perSecond is how fast a counter goes up; nil: it is not known.
type perSecond struct {
	Rate *float64 `json:"rate"`
}

// liveSample is what the overview shows of a sample of the live feed, which its script shows anew with each that comes.
type liveSample struct {
	Cluster string `json:"cluster"`
	Totals  struct {
		Ready     uint64 `json:"ready"`
		Unacked   uint64 `json:"unacked"`
		Consumers int    `json:"consumers"`
	} `json:"totals"`
	Rates struct {
		Publish *float64 `json:"publish"`
		Confirm *float64 `json:"confirm"`
		Deliver *float64 `json:"deliver"`
		Ack     *float64 `json:"ack"`
	} `json:"rates"`
	Objects struct {
		Queues      int `json:"queues"`
		Connections int `json:"connections"`
	} `json:"objects"`
	Nodes  []liveNode `json:"nodes"`
	Silent []string   `json:"silent"`
	Alarms []string   `json:"alarms"`
}

// liveNode is a node in a sample.
type liveNode struct {
	Name     string  `json:"name"`
	Answers  bool    `json:"answers"`
	Refused  string  `json:"refused"`
	Phase    string  `json:"start_phase"`
	Draining bool    `json:"draining"`
	Leads    int     `json:"leads"`
	Members  int     `json:"members"`
	Version  string  `json:"version"`
	DiskFree *uint64 `json:"disk_free_bytes"`
}

// figures are what other pages know a node by.
func (n *liveNode) figures() nodeFigures {
	return nodeFigures{
		Name: n.Name, Running: n.Answers && n.Refused == "", Refused: n.Refused, Draining: n.Draining, Start: &nodeStart{Phase: n.Phase},
		Leaders: n.Leads, Members: n.Members, Version: n.Version, DiskFree: n.DiskFree,
	}
}

// loadOverview asks no node for those who see the live feed: all of them share what is collected for it.
func loadOverview(v *visit) (any, error) {
	var p overviewPage
	if !v.Can("monitoring") {
		return p, v.get(&p, "/api/overview")
	}
	var s liveSample
	if err := v.get(&s, "/v1/live/newest"); err != nil {
		return nil, err
	}
	p.take(&s)
	return p, v.get(&p.Version, "/api/version")
}

// take shows a sample, as the page's script does.
func (p *overviewPage) take(s *liveSample) {
	p.Cluster, p.Alarms = s.Cluster, s.Alarms
	p.Objects.Queues, p.Objects.Connections, p.Objects.Consumers = s.Objects.Queues, s.Objects.Connections, s.Totals.Consumers
	p.Queued.Ready, p.Queued.Unacked = s.Totals.Ready, s.Totals.Unacked
	p.Stats.Publish.Rate, p.Stats.Confirm.Rate, p.Stats.Deliver.Rate, p.Stats.Ack.Rate = s.Rates.Publish, s.Rates.Confirm, s.Rates.Deliver, s.Rates.Ack
	for _, name := range s.Silent {
		p.Alarms = append(p.Alarms, "Node "+name+" does not answer.")
	}
	for i := range s.Nodes {
		p.Nodes = append(p.Nodes, s.Nodes[i].figures())
	}
}
