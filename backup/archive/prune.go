package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// StaleAfter is how long nothing must have been written to an incomplete backup for Prune to remove it: another program
// may be making it.
const StaleAfter = 24 * time.Hour

// Prune removes old backups from a place that has several.
type Prune struct {
	Place Location
	Keys  *Keys
	// Keep is how many of the newest backups of each kind stay, at least 1. Backups of different clusters, vhosts or
	// queues are of different kinds.
	Keep int
	// DryRun removes nothing.
	DryRun bool
	Now    time.Time
	// Verifying is called before a backup is verified, and Removed for each that is removed, or would be.
	Verifying, Removed func(Found)
}

// Execute removes what is too old. Before it removes backups of a kind it verifies the newest one, or else the next, and
// keeps it and all that are newer: a backup that can be restored is left in any case. If that one lacks queues that could not
// be copied, the newest one that lacks none stays, too. Backups that are damaged or cannot be read stay, because their kind
// is not known. If none can be read, the error names them: with keys that are not theirs, nothing would ever be removed.
func (p *Prune) Execute(ctx context.Context) error {
	if p.Keep < 1 {
		return fmt.Errorf("archive: %d backups cannot be kept: keep 1 or more", p.Keep)
	}
	all, err := p.Place.Backups(ctx, p.Keys)
	if err != nil {
		return err
	}
	var kinds []string
	of := map[string][]Found{}
	for _, f := range all {
		if f.Manifest == nil {
			continue
		}
		k := kindOf(f.Manifest)
		if of[k] == nil {
			kinds = append(kinds, k)
		}
		of[k] = append(of[k], f)
	}
	errs := []error{unreadable(all)}
	for _, k := range kinds {
		errs = append(errs, p.kind(ctx, of[k]))
	}
	for _, f := range all {
		if f.Incomplete && p.Now.Sub(f.Changed) > StaleAfter {
			errs = append(errs, p.remove(ctx, f))
		}
	}
	return errors.Join(errs...)
}

// unreadable is the error if there are complete backups and none can be read.
func unreadable(all []Found) error {
	var errs []error
	for _, f := range all {
		switch {
		case f.Manifest != nil:
			return nil
		case f.Err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", f.Location.Name, f.Err))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("archive: no complete backup is removed, because none can be read; if they are encrypted, give their key: %w", errors.Join(errs...))
}

// kindOf names what a backup is of.
func kindOf(m *Manifest) string {
	if m.Definitions != nil {
		return fmt.Sprintf("%q %q", m.Cluster, m.VHost)
	}
	names := make([]string, len(m.Queues))
	for i := range m.Queues {
		names[i] = fmt.Sprintf("%q", m.Queues[i].Name)
	}
	slices.Sort(names)
	return fmt.Sprintf("%q %q %s", m.Cluster, m.VHost, strings.Join(names, " "))
}

// whole reports whether a backup lacks no queue that it should have.
func whole(f Found) bool { return len(f.Manifest.Missing) == 0 }

// kind removes backups of one kind, which are in order, newest first.
func (p *Prune) kind(ctx context.Context, all []Found) error {
	if len(all) <= p.Keep {
		return nil
	}
	stays, damaged := p.verified(ctx, all[:len(all)-1], func(Found) bool { return true })
	if stays < 0 {
		return fmt.Errorf("archive: nothing is removed, because no newer backup can be verified: %w", errors.Join(damaged...))
	}
	first := max(p.Keep, stays+1) // that goes
	if !whole(all[stays]) && slices.ContainsFunc(all[first:], whole) {
		behind, more := p.verified(ctx, all[stays+1:], whole)
		damaged = append(damaged, more...)
		if behind < 0 {
			return fmt.Errorf("archive: nothing is removed, because the newer backups lack queues, and no other one can be verified: %w", errors.Join(damaged...))
		}
		stays += 1 + behind
	}
	errs := damaged
	for i := len(all) - 1; i >= first; i-- { // oldest first
		if i != stays {
			errs = append(errs, p.remove(ctx, all[i]))
		}
	}
	return errors.Join(errs...)
}

// verified returns the index of the first backup that is wanted and can be verified, or -1, and why those before it
// cannot be.
func (p *Prune) verified(ctx context.Context, all []Found, wanted func(Found) bool) (at int, damaged []error) {
	for i, f := range all {
		if !wanted(f) {
			continue
		}
		p.Verifying(f)
		err := f.Location.verify(ctx, p.Keys)
		if err == nil {
			return i, damaged
		}
		damaged = append(damaged, fmt.Errorf("%s: %w", f.Location.Name, err))
		if ctx.Err() != nil {
			break
		}
	}
	return -1, damaged
}

// verify reads the whole backup that is there.
func (l Location) verify(ctx context.Context, k *Keys) error {
	s, err := l.Open(ctx)
	if err != nil {
		return err
	}
	r, err := Open(ctx, s, k)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	return errors.Join(r.Verify(ctx, func(*Queue) {}), r.Close())
}

// remove removes a backup, unless nothing is to be removed.
func (p *Prune) remove(ctx context.Context, f Found) error {
	if !p.DryRun {
		if err := f.Location.Remove(ctx); err != nil {
			return fmt.Errorf("%s: %w", f.Location.Name, err)
		}
	}
	p.Removed(f)
	return nil
}
