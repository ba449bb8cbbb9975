package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/id"
)

// Promise is the founding that this node has agreed to.
type Promise struct {
	Founder   id.NodeID   // "": none
	Round     uint64      // of the founder's proposals
	Members   []id.NodeID // sorted
	Proposals uint64      // made by this node so far
}

const (
	fieldFounder   = "founder"
	fieldRound     = "round"
	fieldMember    = "member"
	fieldProposals = "proposals"
)

// Promise reads what this node has agreed to; nothing if it has not.
func (d *Dir) Promise() (Promise, error) {
	r, err := sealed.Read(d.path, promiseFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Promise{}, nil
	}
	if err != nil {
		return Promise{}, err
	}
	round, err := strconv.ParseUint(r.Get(fieldRound), 10, 64)
	proposals, err2 := strconv.ParseUint(r.Get(fieldProposals), 10, 64)
	if err := errors.Join(err, err2); err != nil {
		return Promise{}, fmt.Errorf("cluster: file %q in %q: %w", promiseFile, d.path, err)
	}
	p := Promise{Founder: id.NodeID(r.Get(fieldFounder)), Round: round, Proposals: proposals}
	for _, f := range r {
		if f.Key == fieldMember {
			p.Members = append(p.Members, id.NodeID(f.Value))
		}
	}
	return p, nil
}

// WritePromise notes it; it returns when that is durable.
func (d *Dir) WritePromise(p Promise) error {
	r := sealed.Record{}.
		With(fieldFounder, string(p.Founder)).
		With(fieldRound, strconv.FormatUint(p.Round, 10)).
		With(fieldProposals, strconv.FormatUint(p.Proposals, 10))
	for _, m := range p.Members {
		r = r.With(fieldMember, string(m))
	}
	return sealed.WriteTwice(d.path, promiseFile, r)
}
