package datadir

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/id"
)

const (
	refusedFile = "refused"
	fieldLost   = "lost"
	// fieldBack has a node and its store. Builds that do not know it refuse the node until their view has it.
	fieldBack = "back"
)

// Refused returns the nodes that were given up in a recovery, each with the store with which it has come back since;
// "": it has not. This node never accepts them with another store: their logs could overwrite what was done since.
func (d *Dir) Refused() (map[id.NodeID]id.StoreID, error) {
	out := map[id.NodeID]id.StoreID{}
	rec, err := sealed.Read(d.path, refusedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	for _, f := range rec {
		switch f.Key {
		case fieldLost:
			out[id.NodeID(f.Value)] = ""
		case fieldBack: // behind all that are lost
			node, store, _ := strings.Cut(f.Value, " ")
			out[id.NodeID(node)] = id.StoreID(store)
		}
	}
	return out, err
}

// Refuse gives up nodes, also those that had come back.
func (d *Dir) Refuse(nodes []id.NodeID) error {
	all, err := d.Refused()
	if err != nil {
		return err
	}
	for _, n := range nodes {
		all[n] = ""
	}
	return d.writeRefused(all)
}

// Readmit records the store with which a node that was given up has come back.
func (d *Dir) Readmit(n id.NodeID, s id.StoreID) error {
	all, err := d.Refused()
	if err != nil {
		return err
	}
	all[n] = s
	return d.writeRefused(all)
}

func (d *Dir) writeRefused(all map[id.NodeID]id.StoreID) error {
	var lost, back sealed.Record
	for _, n := range slices.Sorted(maps.Keys(all)) {
		lost = lost.With(fieldLost, string(n))
		if s := all[n]; s != "" {
			back = back.With(fieldBack, string(n)+" "+string(s))
		}
	}
	return sealed.WriteTwice(d.path, refusedFile, append(lost, back...))
}
