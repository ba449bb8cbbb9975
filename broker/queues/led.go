package queues

import "time"

// LedStats are the figures of a queue from the node that leads it.
type LedStats struct {
	UID         uint64
	VHost, Name string
	Leader      string
	Stats       *Stats
}

// AllStats returns the figures of all queues that have a leader, in no order, when they were taken and the nodes that did
// not answer. It checks no permission: whoever shows them does.
func (qs *Queues) AllStats() (all []LedStats, at time.Time, silent []string, err error) {
	f, err := qs.figures()
	if err != nil {
		return nil, at, nil, err
	}
	v, now := qs.cluster.View(), qs.now()
	all = make([]LedStats, 0, len(f.led.Queues))
	for uid, q := range f.led.Queues {
		if r, there := v.QueueByUID(uid); there {
			all = append(all, LedStats{UID: uint64(uid), VHost: r.VHost, Name: r.Name, Leader: string(q.Leader), Stats: statsOf(&q.Overview, now)})
		}
	}
	return all, f.at, f.silent, nil
}
