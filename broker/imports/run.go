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
	// importWorkers limits how many objects of an import are created at the same time.
	importWorkers = 16
	// maxImportFailures is the number of objects for which no leader or no majority was found in time, after which an
	// import is given up: each of them takes long.
	maxImportFailures = 32
)

// errEarly is the cause of errors about commands that need a version which is not finalised.
var errEarly = errors.New("broker: the version is not finalised")

// importing is one import. Its workers share it; mu guards the fields below it.
type importing struct {
	cluster  *cluster.Cluster
	audit    *audit.Log
	commands *audit.Commands
	steps    []definitions.Step
	report   func([]Imported, int)

	mu      sync.Mutex
	summary Summary
	done    []Imported
	away    int   // objects whose cause is causeCluster
	failed  error // the last error of such an object
}

// maxUnreported limits the objects of a batch.
const maxUnreported = 256

// all carries out the steps, one kind of object after the other, because later kinds refer to earlier ones.
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

// phase carries out steps that do not depend on one another.
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
				out.Outcome = Unchanged // another caller has created it meanwhile
			}
			out = m.judged(out, err)
			if out.Outcome == Different && samePassword(m.cluster.View(), s) { // another node imports the same document
				out.Outcome, out.Reason = Unchanged, ""
			}
			m.add(out, err)
		})
	}
	wg.Wait()
	return m.stopped(ctx)
}

// stopped returns why the import must end, or nil if it continues.
func (m *importing) stopped(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away >= maxImportFailures {
		return m.failed
	}
	return nil
}

// judged derives the result for an object from the error of its creation. What is missing may be an object that has
// failed: kinds are created one after the other, so that one is counted already.
func (m *importing) judged(out Imported, err error) Imported {
	if err == nil {
		return out
	}
	out.Outcome, out.Reason, out.cause = Failed, err.Error(), causeCluster
	var e *failure.Error
	if !errors.As(err, &e) {
		return out
	}
	switch e.Class {
	case failure.NotFound:
		if out.Outcome, out.cause = Refused, causeOther; m.hasFailed() {
			out.Outcome = Failed
		}
	case failure.PreconditionFailed, failure.ResourceLocked:
		out.Outcome = Refused
		if e.State { // another caller has created it meanwhile
			out.Outcome = Different
		}
	case failure.AccessRefused, failure.NotAllowed, failure.NotImplemented:
		out.Outcome = Refused
	case failure.ResourceExhausted, failure.Internal:
		out.cause = causeOther
	case failure.Unavailable, failure.ConnectionForced:
		if errors.Is(err, errEarly) {
			out.cause = causeVersion
		}
	}
	return out
}

// hasFailed reports whether an object has failed so far.
func (m *importing) hasFailed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.summary.Counts[Failed] > 0
}

// add counts the result for an object, and reports a batch if it is full.
func (m *importing) add(o Imported, err error) {
	m.mu.Lock()
	m.done = append(m.done, o)
	m.summary.Counts[o.Outcome]++
	if o.Outcome == Failed && o.cause == causeCluster {
		m.away++
		m.failed = err
	}
	full := len(m.done) >= maxUnreported
	m.mu.Unlock()
	if full {
		m.flush()
	}
}

// flush reports the results so far. It calls report with mu held, so that batches come one at a time.
func (m *importing) flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.done) > 0 && m.report != nil {
		m.report(m.done, m.summary.Total)
	}
	m.done = nil
}

// audited is create with an audit record of its own for objects that change rights. All others are counted in the
// record of the import.
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

// create creates an object and reports whether it is new.
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
		// The caller does not use the queues, so its node is no good place for leaders: they are spread, unless the
		// arguments of a queue choose.
		_, chosen := c.Arguments.Get(argument.LeaderLocator)
		reply, err := m.cluster.Operator().DeclareQueue(ctx, *c, e.GroupSize, !chosen || e.BalancedLeader)
		err = failure.Translate(err, about)
		if _, exists := m.cluster.View().Queue(c.VHost, c.Name); exists { // else it cannot be created, for example above a limit
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

// early refuses a command that cannot be proposed yet, because the cluster is new or is being upgraded.
func (m *importing) early(cmd catalog.Command, about failure.Error) error {
	if early := m.cluster.View().Allows(cmd); early != nil {
		about.Class, about.RetryAfter, about.Reason, about.Cause = failure.Unavailable, failure.RetryAfter, early.Reason, errEarly
		return &about
	}
	return nil
}
