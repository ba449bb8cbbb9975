package datadir

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/id"
)

const (
	refusedFile = "refused"
	fieldLost   = "lost"
)

// Refused returns the nodes that this one never talks to again: they were given up in a
// recovery, and could overwrite with their logs what was done since.
func (d *Dir) Refused() ([]id.NodeID, error) {
	rec, err := sealed.Read(d.path, refusedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []id.NodeID
	for _, f := range rec {
		if f.Key == fieldLost {
			out = append(out, id.NodeID(f.Value))
		}
	}
	return out, err
}

// Refuse adds nodes to those.
func (d *Dir) Refuse(nodes []id.NodeID) error {
	all, err := d.Refused()
	if err != nil {
		return err
	}
	all = append(all, nodes...)
	slices.Sort(all)
	var rec sealed.Record
	for _, n := range slices.Compact(all) {
		rec = rec.With(fieldLost, string(n))
	}
	return sealed.WriteTwice(d.path, refusedFile, rec)
}
