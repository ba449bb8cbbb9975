package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"syscall"

	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/id"
)

// NextEpoch returns an epoch that this directory has never handed out, durably.
//
// The two copies are written in turn, and both in a store's first life. If the newer is torn, the
// older is one behind, so the next epoch skips one. A copy that is damaged or missing is written
// again, and reported.
func (d *Dir) NextEpoch(log *slog.Logger) (id.Epoch, error) {
	var newest uint64
	var faults []error
	var bad []string
	missing := 0
	for copyNo := range sealed.Copies {
		r, err := sealed.ReadCopy(d.path, epochFile, copyNo)
		if errors.Is(err, fs.ErrNotExist) {
			missing++
			bad = append(bad, sealed.Path(d.path, epochFile, copyNo))
			continue
		}
		var n uint64
		if err == nil {
			n, err = strconv.ParseUint(r.Get(fieldEpoch), 10, 64)
		}
		if err != nil {
			faults = append(faults, err)
			bad = append(bad, sealed.Path(d.path, epochFile, copyNo))
			continue
		}
		newest = max(newest, n)
	}
	if newest == 0 && len(faults) > 0 {
		return 0, fmt.Errorf("%w: no copy of file %q in %q is whole: restore one from a backup, or give up what the directory holds "+
			"(docs/operations.md, \"Damaged files\"): %w", sealed.ErrDamaged, epochFile, d.path, errors.Join(faults...))
	}
	first := max(uint64(d.store.First), 1)
	next := max(newest+1, first)
	if len(faults) > 0 || missing == 1 {
		next++
	}
	r, copyNo := sealed.Record{}.With(fieldEpoch, strconv.FormatUint(next, 10)), int(next%sealed.Copies)
	err := sealed.Write(d.path, epochFile, copyNo, r)
	if errors.Is(err, syscall.ENOSPC) && len(faults) == 0 {
		err = sealed.Overwrite(d.path, epochFile, copyNo, r) // the older one
	}
	if err == nil && len(bad) > 0 { // this one went where the whole copy was, or is the only one
		err = sealed.Write(d.path, epochFile, 1-copyNo, sealed.Record{}.With(fieldEpoch, strconv.FormatUint(next-1, 10)))
	}
	if err == nil && missing < sealed.Copies {
		for _, path := range bad {
			logMended(log, path, "epoch", next)
		}
	}
	return id.Epoch(next), err
}
