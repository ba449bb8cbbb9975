package imports

import (
	"context"
	"errors"
	"sync"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/definitions"
	"github.com/quorate/quorate/internal/password"
)

const (
	// importWorkers bounds how many objects of an import are made at once.
	importWorkers = 16
	// maxImportFailures is the number of objects that could not be made for now, after which
	// an import is given up.
	maxImportFailures = 32
)

// importing is one import. Workers share it: mu guards what is below it.
type importing struct {
	cluster  *cluster.Cluster
	audit    *audit.Log
	commands *audit.Commands
	steps    []definitions.Step
	report   func([]Imported, int)

	mu      sync.Mutex
	summary Summary
	done    []Imported
	failed  error // the last one
}

// maxUnreported bounds the objects of a batch.
const maxUnreported = 256

// all carries the steps out, kind by kind.
func (m *importing) all(ctx context.Context, v *catalog.View) error {
	for from := 0; from < len(m.steps); {
		to := from
		for to < len(m.steps) && m.steps[to].Kind == m.steps[from].Kind {
			to++
		}
		if err := m.phase(ctx, v, m.steps[from:to]); err != nil {
			m.flush()
			return err
		}
		from = to
	}
	m.flush()
	return nil
}

// phase carries out steps that do not need one another.
func (m *importing) phase(ctx context.Context, v *catalog.View, steps []definitions.Step) error {
	var wg sync.WaitGroup
	slots := make(chan struct{}, importWorkers)
	for i := range steps {
		s := &steps[i]
		if s.Action != definitions.Create {
			m.add(planned(v, s), nil)
			continue
		}
		slots <- struct{}{}
		if err := m.stopped(ctx); err != nil {
			wg.Wait()
			return err
		}
		wg.Go(func() {
			defer func() { <-slots }()
			created, err := m.audited(ctx, s)
			out := planned(v, s)
			if !created {
				out.Outcome = Unchanged // another caller made it meanwhile
			}
			out = m.judged(out, err)
			if out.Outcome == Different && samePassword(m.cluster.View(), s) { // another node imports the same
				out.Outcome, out.Reason = Unchanged, ""
			}
			m.add(out, err)
		})
	}
	wg.Wait()
	return m.stopped(ctx)
}

// stopped returns why the import is given up, nil if it goes on.
func (m *importing) stopped(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.summary.Counts[Failed] >= maxImportFailures {
		return m.failed
	}
	return nil
}

// judged is what an error makes of an object that was to be created.
func (m *importing) judged(out Imported, err error) Imported {
	if err == nil {
		return out
	}
	out.Outcome, out.Reason = Failed, err.Error()
	var e *failure.Error
	if !errors.As(err, &e) {
		return out
	}
	switch e.Class {
	case failure.PreconditionFailed, failure.ResourceLocked:
		out.Outcome = Refused
		if e.State { // another caller made it meanwhile
			out.Outcome = Different
		}
	case failure.NotFound, failure.AccessRefused, failure.NotAllowed, failure.NotImplemented:
		out.Outcome = Refused
	case failure.ResourceExhausted, failure.Unavailable, failure.ConnectionForced, failure.Internal:
	}
	return out
}

// add counts the outcome of an object, and hands it over in a batch.
func (m *importing) add(o Imported, err error) {
	m.mu.Lock()
	m.done = append(m.done, o)
	m.summary.Counts[o.Outcome]++
	if o.Outcome == Failed {
		m.failed = err
	}
	full := len(m.done) >= maxUnreported
	m.mu.Unlock()
	if full {
		m.flush()
	}
}

// flush hands over what is done. report is called with mu held, so that batches come one at a time.
func (m *importing) flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.done) > 0 && m.report != nil {
		m.report(m.done, m.summary.Total)
	}
	m.done = nil
}

// audited is create with a record of its own for what changes rights; the rest is counted in
// that of the import.
func (m *importing) audited(ctx context.Context, s *definitions.Step) (created bool, err error) {
	whole := audit.NotesOf(ctx)
	x, own := actOfObject(s)
	if whole == nil || !own {
		return m.create(audit.WithoutNotes(ctx), s)
	}
	x.From, x.ByItself = whole.From, whole.From.Protocol == audit.ProtocolNode
	err = m.audit.Audited(ctx, x, func(ctx context.Context) (err error) {
		created, err = m.create(ctx, s)
		return err
	})
	return created, err
}

// create makes an object and reports whether it is new.
func (m *importing) create(ctx context.Context, s *definitions.Step) (created bool, err error) {
	about := failure.Error{VHost: s.VHost, Kind: s.Kind.String(), Name: s.Name}
	command, sets := s.Command, false
	switch c := command.(type) {
	case *catalog.SetVHostLimits:
		sets = true
	case *catalog.PutVHost:
		sets = !c.OnlyNew
	case *catalog.DeclareQueue:
		e, err := resolveImported(c)
		if err != nil {
			return false, err
		}
		if err := m.early(c, about); err != nil {
			return false, err
		}
		// The caller is no client of the queues: their leaders are spread unless their arguments choose.
		_, chosen := c.Arguments.Get(argument.LeaderLocator)
		reply, err := m.cluster.Operator().DeclareQueue(ctx, *c, e.GroupSize, !chosen || e.BalancedLeader)
		err = failure.Translate(err, about)
		if _, exists := m.cluster.View().Queue(c.VHost, c.Name); exists { // else it may not be made, as above a limit
			err = failure.AsState(err)
		}
		return reply.Created, err
	case *catalog.PutUser:
		if s.Password == "" {
			break
		}
		hash, a, err := password.Hash(s.Password)
		if err != nil {
			return false, failure.Translate(err, about)
		}
		u := *c
		u.PasswordHash, u.Algorithm = hash, string(a)
		command = &u
	}
	if err := m.early(command, about); err != nil {
		return false, err
	}
	reply, err := m.commands.Commit(ctx, command)
	return reply.Created || sets, failure.AsState(failure.Translate(err, about))
}

// early reports that a command cannot be proposed yet: in a new cluster, or one that is being upgraded.
func (m *importing) early(cmd catalog.Command, about failure.Error) error {
	if early := m.cluster.View().Allows(cmd); early != nil {
		about.Class, about.RetryAfter, about.Reason = failure.Unavailable, failure.RetryAfter, early.Reason
		return &about
	}
	return nil
}
