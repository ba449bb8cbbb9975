package page

import (
	"maps"
	"strconv"
)

// nodeViews are the pages about nodes.
func nodeViews() []view {
	return []view{
		{path: "/ui/nodes", file: "nodes.html", title: "Nodes", load: loadNodes},
		{path: "/ui/node", file: "node.html", title: "Node", load: loadNode},
	}
}

// nodeFigures are all that is known about a node; what it has not reported is nil.
type nodeFigures struct {
	Name        string     `json:"name"`
	Running     bool       `json:"running"`
	Draining    bool       `json:"being_drained"`
	Version     string     `json:"version"`
	Members     int        `json:"quorum_queues"`
	Leaders     int        `json:"quorum_queue_leaders"`
	DiskFree    *uint64    `json:"disk_free"`
	Disk        string     `json:"disk_pressure"`
	Hangs       *float64   `json:"disk_hangs_ms"`
	Refused     string     `json:"refused"`
	Reasons     []string   `json:"alarms"`
	Address     string     `json:"client_address"`
	DiskLimit   *uint64    `json:"disk_free_limit"`
	Memory      *uint64    `json:"mem_used"`
	MemoryLimit *uint64    `json:"mem_limit"` // 0: none
	MemoryAlarm bool       `json:"mem_alarm"`
	Files       *uint64    `json:"fd_used"`
	FilesLimit  *uint64    `json:"fd_total"`
	Goroutines  *uint64    `json:"proc_used"`
	Runnable    *float64   `json:"run_queue"`
	Processors  *int       `json:"processors"`
	Uptime      *float64   `json:"uptime"`
	CPU         *float64   `json:"cpu"` // cores in use
	ConfirmP99  *float64   `json:"confirm_p99_ms"`
	FsyncP99    *float64   `json:"fsync_p99_ms"`
	ClockOffset *float64   `json:"clock_offset_us"`
	ClockOff    bool       `json:"clock_off"`
	Start       *nodeStart `json:"start"`
}

// nodeStart is how far the start of a node is.
type nodeStart struct {
	Phase string `json:"phase"`
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
	Unit  string `json:"unit"`
}

// State is what the node does, in a word or two.
func (n *nodeFigures) State() string {
	switch {
	case n.Refused != "":
		return "refused"
	case !n.Running:
		return "does not answer"
	case n.Draining:
		return "drained"
	case n.Starting():
		return "starting"
	}
	return "runs"
}

// Starting reports whether the node does not serve clients yet.
func (n *nodeFigures) Starting() bool {
	return n.Start != nil && n.Start.Phase != "started" && n.Start.Phase != ""
}

// Alarms describes the node's alarms in the sentences of the live feed.
func (n *nodeFigures) Alarms() (all []string) {
	for _, reason := range n.Reasons {
		all = append(all, "Node "+n.Name+": "+reason)
	}
	if !n.Running && n.Refused == "" {
		all = append(all, "Node "+n.Name+" does not answer.")
	}
	return all
}

// Offset is how far the wall clock is from the time of the cluster.
func (n *nodeFigures) Offset() string {
	switch {
	case n.ClockOffset == nil:
		return unknown
	case *n.ClockOffset < 0:
		return "−" + micros(-*n.ClockOffset)
	}
	return "+" + micros(*n.ClockOffset)
}

// MemoryUse is the memory in use, and its limit if there is one.
func (n *nodeFigures) MemoryUse() string {
	if n.MemoryLimit == nil || *n.MemoryLimit == 0 {
		return byteSize(n.Memory)
	}
	return byteSize(n.Memory) + " of " + byteSize(n.MemoryLimit)
}

// Hang is for how long a write to the disk has been under way, if that is too long.
func (n *nodeFigures) Hang() string {
	if n.Hangs != nil && *n.Hangs == 0 {
		return "none"
	}
	return millis(n.Hangs)
}

// Badge is the colour of the node's state.
func (n *nodeFigures) Badge() string {
	switch n.State() {
	case "runs":
		return "done"
	case "drained", "starting":
		return "running"
	}
	return "failed"
}

// Cores is how many processor cores the node uses.
func (n *nodeFigures) Cores() string {
	if n.CPU == nil {
		return unknown
	}
	return strconv.FormatFloat(*n.CPU, 'f', 2, 64)
}

// micros writes a time in microseconds in the unit that suits it.
func micros(us float64) string {
	if us < 1000 {
		return strconv.FormatFloat(us, 'f', 0, 64) + " µs"
	}
	return millis(us / 1000)
}

// nodesPage is the list of nodes.
type nodesPage struct{ Page listPage[*nodeFigures] }

func loadNodes(v *visit) (any, error) {
	var p nodesPage
	return p, v.list(&p.Page, v.listQuery(), "/api/nodes")
}

// thisNode is the name in the address, or in the form.
func (v *visit) thisNode() string { return v.FormValue("name") }

// aboutNode is the address of the page about the node of this visit.
func (v *visit) aboutNode() string { return address("/ui/node", "name", v.thisNode()) }

// getNode asks for the node of this visit.
func (v *visit) getNode() (n nodeFigures, err error) {
	return n, v.get(&n, "/api/nodes/%s", v.thisNode())
}

// clusterFacts are what the node that serves the page knows about the cluster.
type clusterFacts struct {
	Leader    string       `json:"catalog_leader"`
	Hindrance string       `json:"hindrance"` // what keeps the cluster from the newest version of stored state
	Finalised int          `json:"finalized_version"`
	Nodes     []nodeDetail `json:"nodes"`
}

// nodeDetail is what only the list of the whole cluster shows about a node.
type nodeDetail struct {
	ID        string            `json:"id"`
	Alive     bool              `json:"alive"`
	Connected bool              `json:"connected"`
	Reads     int               `json:"reads_version"`
	Counters  map[string]uint64 `json:"counters"`
	Disk      *struct {
		Path    string `json:"path"`
		Floor   uint64 `json:"floor_bytes"`
		Stopped int    `json:"stopped"`
		Refused uint64 `json:"refused"`
		Moved   uint64 `json:"moved"`
	} `json:"disk"`
	Clock *struct {
		Error float64 `json:"error_us"`
		Grade string  `json:"grade"`
	} `json:"clock"`
}

// Counted are the counters that are not 0.
func (d *nodeDetail) Counted() map[string]uint64 {
	maps.DeleteFunc(d.Counters, func(_ string, n uint64) bool { return n == 0 })
	return d.Counters
}

// Uncertainty is the possible error of the clock's offset.
func (d *nodeDetail) Uncertainty() string { return micros(d.Clock.Error) }

// memoryPart is what a part of a node's memory is for.
type memoryPart struct {
	Says  string
	Bytes uint64
}

// memoryParts asks what the memory of the node of this visit is for; nil if the node has not said.
func (v *visit) memoryParts() (all []memoryPart, err error) {
	var out struct {
		Memory struct {
			Bodies uint64 `json:"binary"`
			Tail   uint64 `json:"quorum_ets"`
			Heap   uint64 `json:"other_proc"`
			System uint64 `json:"other_system"`
			Unused uint64 `json:"allocated_unused"`
			Others uint64 `json:"code"`
			Total  struct {
				Resident uint64 `json:"rss"`
			} `json:"total"`
		} `json:"memory"`
	}
	if err := v.get(&out, "/api/nodes/%s/memory", v.thisNode()); unavailable(err) || missing(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	m := &out.Memory
	return []memoryPart{
		{"Kept bodies of messages", m.Bodies},
		{"Newest entries of the log", m.Tail},
		{"Other objects, garbage too", m.Heap},
		{"Stacks and the Go runtime", m.System},
		{"Kept for what comes", m.Unused},
		{"Program and all else", m.Others},
		{"Resident in all", m.Total.Resident},
	}, nil
}

// nodePage is what the page about a node shows.
type nodePage struct {
	Node    nodeFigures
	Detail  *nodeDetail
	Cluster clusterFacts
	Memory  []memoryPart
}

func loadNode(v *visit) (any, error) {
	n, err := v.getNode()
	if err != nil {
		return nil, err
	}
	p := &nodePage{Node: n, Detail: &nodeDetail{}}
	if err := v.get(&p.Cluster, "/v1/cluster"); err != nil {
		return nil, err
	}
	for _, d := range p.Cluster.Nodes {
		if d.ID == n.Name {
			p.Detail = &d
		}
	}
	p.Memory, err = v.memoryParts()
	return p, err
}
