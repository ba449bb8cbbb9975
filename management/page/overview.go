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

// loadOverview asks for the nodes only as a user who may see them.
func loadOverview(v *visit) (any, error) {
	var p overviewPage
	if err := v.get(&p, "/api/overview"); err != nil {
		return nil, err
	}
	if !v.Can("monitoring") {
		return p, nil
	}
	if err := v.get(&p.Nodes, "/api/nodes"); err != nil {
		return nil, err
	}
	for i := range p.Nodes {
		p.Alarms = append(p.Alarms, p.Nodes[i].Alarms()...)
	}
	return p, nil
}
