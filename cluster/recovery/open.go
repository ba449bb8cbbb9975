package recovery

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/storage"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
	"github.com/quorate/quorate/wal"
)

// Open reads what the node has stored and plans what is to be done. Nothing is
// changed before Run, but that the log's last segment is closed, as at a start. Close it.
func Open(c Config) (_ *Recovery, err error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if _, err := os.Stat(filepath.Join(c.DataDir, datadir.CatalogDir)); err != nil {
		return nil, fmt.Errorf("cluster: data directory %q holds no node: %w: name that of a node that is left", c.DataDir, err)
	}
	if slices.Contains(c.Lost, c.Node) {
		return nil, fmt.Errorf("cluster: node %q is this one, and not lost", c.Node)
	}
	r := &Recovery{c: c}
	if r.dir, err = datadir.Open(c.DataDir, c.Name, c.Node); err != nil {
		return nil, err
	}
	r.storage, err = storage.Open(storage.Config{
		Dir: r.dir, Logger: c.Logger, TailBytes: wal.DefaultTailBytes,
		Failed: func(err error) {
			c.Logger.Error("the node's log failed: its groups stop; look at the disk, then restart the node", "error", err)
		},
		Lost: func(g id.GroupID, err error) {
			c.Logger.Error("a queue's entries on this node are damaged", "queue", id.QueueUID(g).String(), "error", err)
		},
		Pressed: func() {}, Opening: func(int, int) {},
	})
	if err == nil {
		err = r.read()
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// read fills the report and the plan.
func (r *Recovery) read() error {
	r.Report = Report{Cluster: r.c.Name, Node: r.c.Node, Groups: map[id.GroupID]raftfsm.Stored{}}
	log, err := raftfsm.OpenBolt(filepath.Join(r.dir.Catalog(), datadir.CatalogLog))
	if err != nil {
		return fmt.Errorf("cluster: opening the catalog's log: %w", err)
	}
	if r.cat, err = raftfsm.OpenResting(id.CatalogGroup, filepath.Join(r.dir.Catalog(), datadir.SnapshotsDir), log); err != nil {
		return err
	}
	if r.Report.Groups[id.CatalogGroup], err = r.cat.Inspect(); err != nil {
		return err
	}
	machine := metadata.NewReplay()
	if err := raftfsm.Replay(r.cat, machine); err != nil {
		return err
	}
	r.view = machine.View()
	r.Report.Version = r.view.Version()
	for q := range r.view.Queues() {
		if !r.storage.HasQueue(q.UID) {
			continue
		}
		err := r.withQueue(q.UID, func(m *raftfsm.Resting) error {
			s, err := m.Inspect()
			if err == nil {
				r.Report.Groups[q.UID.Group()] = s
			}
			return err
		})
		if errors.Is(err, wal.ErrLost) {
			r.c.Logger.Warn("a damaged member counts as one that has nothing", "queue", q.UID.String(), "error", err)
		} else if err != nil {
			return err
		}
	}
	if err := r.checkNames(); err != nil {
		return err
	}
	r.plan()
	return nil
}
