package broker

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/names"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/definitions"
	"github.com/quorate/quorate/internal/password"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
)

const (
	// importWorkers bounds how many objects of an import are made at once.
	importWorkers = 16
	// maxImportFailures is the number of objects that could not be made for now, after which
	// an import is given up.
	maxImportFailures = 32
)

// MaxDefinitionsBytes bounds the document of an import, in bytes.
const MaxDefinitionsBytes = definitions.MaxBytes

// Import says how to import definitions.
type Import struct {
	Document []byte
	VHost    string // only what lies in it; "": all
	DryRun   bool   // only plan
}

// ImportOutcome is what became of an object of an import, or would.
type ImportOutcome uint8

// The outcomes.
const (
	ImportCreated   ImportOutcome = iota
	ImportUnchanged               // there already, just so
	ImportDifferent               // there with other properties, and left
	ImportRefused                 // cannot be made
	ImportSkipped                 // nothing that an import makes
	ImportFailed                  // could not be made for now
	importOutcomes
)

// Imported is what became of one object.
type Imported struct {
	Kind        string
	VHost, Name string
	Path        string // in the document
	Outcome     ImportOutcome
	Reason      string
	Warnings    []string // what is not as the document has it (VH-13)
}

// ImportSummary counts objects by ImportOutcome.
type ImportSummary struct {
	Total  int
	Counts [importOutcomes]int
}

// ExportDefinitions returns the document of all that the cluster has besides messages, or
// of one vhost unless that is "" (VH-9, ST-4).
func (b *Broker) ExportDefinitions(vhost string) ([]byte, error) {
	v, err := b.Serving.ViewOf(vhost)
	if err != nil {
		return nil, err
	}
	c := b.cluster
	name, version := c.Name()
	return definitions.Append(nil, v, vhost, definitions.Origin{Cluster: name, Version: version})
}

// ImportDefinitions makes what a document describes and is not there (VH-9). told gets the
// objects as they are done, in batches, one call at a time; total is the number of all.
// Nothing is taken of a document with a fault of form. An error after the first batch says
// why the import was given up; a repeat goes on where it was.
func (b *Broker) ImportDefinitions(ctx context.Context, i Import, told func(done []Imported, total int)) (ImportSummary, error) {
	c := b.cluster
	if _, err := b.Serving.ViewOf(i.VHost); err != nil {
		return ImportSummary{}, err
	}
	doc, err := definitions.Parse(i.Document, i.VHost)
	if err != nil {
		return ImportSummary{}, faultyDocument(err)
	}
	by, err := b.declarer(ctx)
	if err != nil {
		return ImportSummary{}, err
	}
	doc.DeclareBy(by)
	v := c.View()
	run := importing{b: b, c: c, steps: definitions.Plan(doc, v, b.vet), told: told}
	run.summary.Total = len(run.steps)
	if i.DryRun {
		for j := range run.steps {
			run.add(b.planned(v, &run.steps[j]), nil)
		}
		run.flush()
		return run.summary, nil
	}
	err = run.all(ctx, v)
	noteImported(audit.NotesOf(ctx), &run.summary)
	return run.summary, err
}

func faultyDocument(err error) error {
	e := &failure.Error{Class: failure.PreconditionFailed, Kind: "definitions", Reason: "nothing is imported: " + err.Error(), Cause: err}
	var faults *definitions.Faults
	if errors.As(err, &faults) && len(faults.List) > 0 {
		e.Arg = faults.List[0].Path
	}
	return e
}

// CheckDefinitions says what is wrong with the form of a document.
func CheckDefinitions(document []byte) error {
	_, err := definitions.Parse(document, "")
	return err
}

// vet checks of a new object what the catalog does not.
func (b *Broker) vet(o *definitions.Object) error {
	switch c := o.Command.(type) {
	case *catalog.PutVHost:
		return names.CheckPlain(c.Name, "", administration.AboutVHost(c.Name))
	case *catalog.PutUser:
		if err := names.CheckPlain(c.Name, ":", administration.AboutUser(c.Name)); err != nil {
			return err
		}
		u := administration.PutUser{Name: c.Name, Password: o.Password, Hash: c.PasswordHash, Algorithm: c.Algorithm}
		return u.Check(administration.AboutUser(c.Name))
	case *catalog.SetPermission:
		return administration.CheckPatterns(administration.AboutPermission(c.VHost, c.User),
			administration.NamedPattern{Arg: "configure", Text: c.Configure}, administration.NamedPattern{Arg: "write", Text: c.Write}, administration.NamedPattern{Arg: "read", Text: c.Read})
	case *catalog.SetTopicPermission:
		return administration.CheckPatterns(administration.AboutTopicPermission(c.VHost, c.User), administration.NamedPattern{Arg: "write", Text: c.Write}, administration.NamedPattern{Arg: "read", Text: c.Read})
	case *catalog.PutPolicy:
		return administration.CheckPolicy(&c.Policy, failure.Error{VHost: c.VHost, Kind: "policy", Name: c.Name})
	case *catalog.DeclareExchange:
		return names.Check(c.Name, failure.Error{VHost: c.VHost, Kind: "exchange", Name: c.Name})
	case *catalog.DeclareQueue:
		_, err := resolveImported(c)
		return err
	case *catalog.Bind:
		return names.CheckKey(c.Key, failure.Error{VHost: c.VHost, Kind: "binding", Name: names.Binding(c.Source, c.Destination)})
	case *catalog.PutParameter:
		if c.VHost == "" && c.Component != "" { // those are the broker's own
			return &failure.Error{Class: failure.AccessRefused, Kind: "parameter", Name: c.Name, Reason: "is the broker's own"}
		}
	}
	return nil
}

// resolveImported checks a queue of a document, whose type is known.
func resolveImported(c *catalog.DeclareQueue) (argument.Settings, error) {
	about := failure.Error{VHost: c.VHost, Kind: "queue", Name: c.Name}
	if err := names.Check(c.Name, about); err != nil {
		return argument.Settings{}, err
	}
	args := c.Arguments
	if _, named := args.Get(argument.QueueType); !named {
		args = append(message.Table{{Name: argument.QueueType, Value: message.String(string(c.Type))}}, args...)
	}
	e, err := policy.ResolveDeclaration(policy.Declaration{
		Name: c.Name, Durable: c.Durable, Exclusive: c.Exclusive, AutoDelete: c.AutoDelete, Arguments: args,
	}, c.Type)
	if err != nil {
		return e, failure.FromArgument(err, about)
	}
	return e, nil
}

// planned is what a step without an error in carrying it out comes to.
func (b *Broker) planned(v *catalog.View, s *definitions.Step) Imported {
	out := Imported{Kind: s.Kind.String(), VHost: s.VHost, Name: s.Name, Path: s.Path, Reason: s.Reason, Warnings: s.Warnings}
	switch s.Action {
	case definitions.Create:
		out.Outcome = ImportCreated
	case definitions.Keep:
		out.Outcome = ImportUnchanged
	case definitions.Differ:
		if out.Outcome = ImportDifferent; samePassword(v, s) {
			out.Outcome, out.Reason = ImportUnchanged, ""
		}
	case definitions.Refuse:
		out.Outcome = ImportRefused
	case definitions.Skip:
		out.Outcome = ImportSkipped
	}
	return out
}

// samePassword reports whether a user that differs does so only in that the document has its
// password, and the cluster the hash of it.
func samePassword(v *catalog.View, s *definitions.Step) bool {
	c, is := s.Command.(*catalog.PutUser)
	if !is || s.Password == "" {
		return false
	}
	u, ok := v.User(c.Name)
	if !ok || !slices.Equal(u.Tags, c.Tags) || u.UserLimits != c.UserLimits {
		return false
	}
	same, err := password.Matches(s.Password, u.PasswordHash, password.Algorithm(u.Algorithm))
	return err == nil && same
}

// importing is one import. Workers share it under mu.
type importing struct {
	b     *Broker
	c     *cluster.Cluster
	steps []definitions.Step
	told  func([]Imported, int)

	mu      sync.Mutex
	summary ImportSummary
	done    []Imported
	failed  error // the last one
}

// maxUntold bounds the objects that a batch tells.
const maxUntold = 256

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
			m.add(m.b.planned(v, s), nil)
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
			out := m.b.planned(v, s)
			if !created {
				out.Outcome = ImportUnchanged // somebody else made it meanwhile
			}
			out = m.judged(out, err)
			if out.Outcome == ImportDifferent && samePassword(m.c.View(), s) { // another node imports the same
				out.Outcome, out.Reason = ImportUnchanged, ""
			}
			m.add(out, err)
		})
	}
	wg.Wait()
	return m.stopped(ctx)
}

// stopped tells why the import is given up.
func (m *importing) stopped(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.summary.Counts[ImportFailed] >= maxImportFailures {
		return m.failed
	}
	return nil
}

// judged is what an error makes of an object that was to be created.
func (m *importing) judged(out Imported, err error) Imported {
	if err == nil {
		return out
	}
	out.Outcome, out.Reason = ImportFailed, err.Error()
	var e *failure.Error
	if !errors.As(err, &e) {
		return out
	}
	switch e.Class {
	case failure.PreconditionFailed, failure.ResourceLocked:
		out.Outcome = ImportRefused
		if e.State { // somebody else made it meanwhile
			out.Outcome = ImportDifferent
		}
	case failure.NotFound, failure.AccessRefused, failure.NotAllowed, failure.NotImplemented:
		out.Outcome = ImportRefused
	case failure.ResourceExhausted, failure.Unavailable, failure.ConnectionForced, failure.Internal:
	}
	return out
}

func (m *importing) add(o Imported, err error) {
	m.mu.Lock()
	m.done = append(m.done, o)
	m.summary.Counts[o.Outcome]++
	if o.Outcome == ImportFailed {
		m.failed = err
	}
	full := len(m.done) >= maxUntold
	m.mu.Unlock()
	if full {
		m.flush()
	}
}

// flush tells what is done.
func (m *importing) flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.done) > 0 && m.told != nil {
		m.told(m.done, m.summary.Total)
	}
	m.done = nil
}

// audited is create with a record of its own for what says who may do what; the rest is counted in
// that of the import.
func (m *importing) audited(ctx context.Context, s *definitions.Step) (created bool, err error) {
	whole := audit.NotesOf(ctx)
	x, own := actOfObject(s)
	if whole == nil || !own {
		return m.create(audit.WithoutNotes(ctx), s)
	}
	x.From, x.ByItself = whole.From, whole.From.Protocol == audit.ProtocolNode
	err = m.b.Audit.Audited(ctx, x, func(ctx context.Context) (err error) {
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
		// Who imports is no client of the queues: their leaders are spread unless they say otherwise.
		_, chosen := c.Arguments.Get(argument.LeaderLocator)
		reply, err := m.c.Operator().DeclareQueue(ctx, *c, e.GroupSize, !chosen || e.BalancedLeader)
		return reply.Created, failure.AsState(failure.Translate(err, about))
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
	if early := m.c.View().Allows(command); early != nil { // a new cluster, or one that is being upgraded
		about.Class, about.RetryAfter, about.Reason = failure.Unavailable, failure.RetryAfter, early.Reason
		return false, &about
	}
	reply, err := m.b.commands.Commit(ctx, command)
	return reply.Created || sets, failure.AsState(failure.Translate(err, about))
}

// early reports that a command cannot be proposed yet: in a new cluster, or one that is being upgraded.
func (m *importing) early(cmd catalog.Command, about failure.Error) error {
	if early := m.c.View().Allows(cmd); early != nil {
		about.Class, about.RetryAfter, about.Reason = failure.Unavailable, failure.RetryAfter, early.Reason
		return &about
	}
	return nil
}
