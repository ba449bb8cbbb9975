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

	Nodes  []nodeRow
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

// nodeRow is what lists say about a node.
type nodeRow struct {
	Name     string   `json:"name"`
	Running  bool     `json:"running"`
	Draining bool     `json:"being_drained"`
	Version  string   `json:"version"`
	Members  int      `json:"quorum_queues"`
	Leaders  int      `json:"quorum_queue_leaders"`
	DiskFree *uint64  `json:"disk_free"`
	Disk     string   `json:"disk_pressure"`
	Hangs    *float64 `json:"disk_hangs_ms"`
	Refused  string   `json:"refused"`
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
	for _, n := range p.Nodes {
		p.Alarms = append(p.Alarms, n.alarms()...)
	}
	return p, nil
}

// alarms says what ails a node.
func (n *nodeRow) alarms() (all []string) {
	switch {
	case n.Refused != "":
		all = append(all, "Node "+n.Name+" is refused: "+n.Refused)
	case !n.Running:
		all = append(all, "Node "+n.Name+" does not answer.")
	}
	if n.Disk != "" && n.Disk != "none" {
		all = append(all, "Node "+n.Name+": the disk is under pressure ("+n.Disk+"); publishers may have to wait.")
	}
	if n.Hangs != nil && *n.Hangs > 0 {
		all = append(all, "Node "+n.Name+": a write to the disk has hung for "+millis(n.Hangs)+".")
	}
	return all
}
