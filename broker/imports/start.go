package imports

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/definitions"
)

// The global parameters about documents that nodes import when they start.
const (
	definitionsComponent = "definitions"
	importBarrier        = "barrier"
	importedName         = "imported"  // the hash of the document that was imported last
	importingName        = "importing" // the claim of the node that imports: hash of the document and life of the node
	triedName            = "tried"     // the claim whose node has gone through the document
)

const (
	// importRetry is the first interval at which a node tries to import the document; it stays while the node is not
	// ready. maxImportRetry is the longest one.
	importRetry    = 500 * time.Millisecond
	maxImportRetry = 30 * time.Second
	// importPatience limits how long a node is not ready because a version is about to be finalised, or some of the
	// objects got no leader.
	importPatience = time.Minute
	// maxImportLines limits the log lines about objects of one import.
	maxImportLines = 100
)

// Pending reports whether nobody has gone through the document of the configuration yet. Until then the node is not
// ready.
func (d *Definitions) Pending() bool { return d.atStart.Document != nil && !d.tried.Load() }

// Warning describes the objects of the configuration's document that wait, on the node that imports it; "": none
// wait.
func (d *Definitions) Warning() string {
	n := d.waiting.Load()
	if n == 0 || d.Pending() {
		return ""
	}
	return fmt.Sprintf("%d objects of the definitions could not be created yet, and are tried again: the log names them", n)
}

// Waiting returns how many objects of the configuration's document wait, on the node that imports it.
func (d *Definitions) Waiting() int { return int(d.waiting.Load()) }

// stage is the progress of the import of the configuration's document, on any node.
type stage uint8

const (
	stageUntried  stage = iota
	stageTried          // every object was tried; what could not be created is tried again
	stageComplete       // nothing is left to do
)

// Starting imports the document of the configuration when a node starts. Its methods must be called one after the
// other, First before Rest.
type Starting struct {
	*Definitions

	hash  string
	stage stage
	left  map[string]bool // paths of the objects that this node's last pass could not create; nil: it has made none
	since time.Time       // of this node's first pass
	every time.Duration   // until the next try
}

// AtStart returns the import of the configuration's document, which the caller carries out.
func (d *Definitions) AtStart() *Starting {
	s := &Starting{Definitions: d, hash: d.atStart.hash(), every: importRetry}
	if d.atStart.Document == nil {
		s.stage = stageComplete
	}
	return s
}

// First goes through the document once, and tries again until the cluster can accept it or ctx ends. It skips a document
// that the cluster has imported already. While another live node imports the same document, it waits for that one.
func (s *Starting) First(ctx context.Context) { s.reach(ctx, stageTried) }

// Rest creates what could not be created yet, because it needs a newer version, room on disks or another such object.
// It ends when nothing is left, or with ctx.
func (s *Starting) Rest(ctx context.Context) { s.reach(ctx, stageComplete) }

// UsersWait reports, after First, whether the document has users that may be created later.
func (s *Starting) UsersWait() bool {
	if s.stage != stageTried {
		return false
	}
	doc, err := definitions.Parse(s.atStart.Document, "")
	return err == nil && doc.Has(definitions.KindUser)
}

// reach tries until the import has come to a stage.
func (s *Starting) reach(ctx context.Context, want stage) {
	logged := false
	for s.stage < want {
		version := s.cluster.View().Version()
		at, err := s.try(ctx)
		if s.stage = max(s.stage, at); s.stage >= stageTried {
			s.tried.Store(true)
		}
		if err != nil && ctx.Err() == nil && !logged {
			logged = true
			s.log.Info("definitions cannot be imported yet", "error", err)
		}
		if s.stage < want && !s.pause(ctx, version) {
			return
		}
	}
}

// pause waits until it is time for another try, or another version than the one of the last try is finalised. It
// returns false if ctx has ended.
func (s *Starting) pause(ctx context.Context, version catalog.Version) bool {
	if s.stage == stageTried {
		s.every = min(2*s.every, maxImportRetry)
	}
	due := time.NewTimer(s.every)
	defer due.Stop()
	for {
		changed := s.cluster.ViewChanged()
		if s.cluster.View().Version() != version {
			return ctx.Err() == nil
		}
		select {
		case <-due.C:
			return true
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// try imports the document, or what is left of it, unless the cluster has imported it or another live node is importing
// it. A node claims the import with a parameter, so that only one node does it.
func (s *Starting) try(ctx context.Context) (stage, error) {
	if err := s.setParameter(ctx, importBarrier, "1"); err != nil {
		return stageUntried, err // without an error, the view is now as new as the log was
	}
	v := s.cluster.View()
	if parameter(v, importedName) == s.hash && !s.atStart.Always {
		s.log.Info("definitions are unchanged since they were imported", "hash", s.hash)
		s.waiting.Store(0)
		return stageComplete, nil
	}
	status, err := s.cluster.Status(ctx)
	if err != nil {
		return stageUntried, err
	}
	mine := s.hash + " " + lifeOf(string(status.Node), uint64(status.Epoch))
	claim := parameter(v, importingName)
	switch {
	case claim == mine:
	case claimLives(claim, s.hash, &status):
		s.waiting.Store(0) // that node counts them now
		if parameter(v, triedName) == claim {
			return stageTried, nil
		}
		return stageUntried, nil
	default:
		if err := s.setParameter(ctx, importingName, mine); err != nil {
			return stageUntried, err
		}
	}
	waits := false
	err = s.audit.ByItself(ctx, audit.Act{Operation: audit.OpDefinitionsImport, Kind: "definitions", Name: s.hash}, func(ctx context.Context) (err error) {
		waits, err = s.pass(ctx)
		return err
	})
	switch {
	case err != nil:
		return stageUntried, err
	case waits:
		return stageUntried, &failure.Error{
			Class: failure.Unavailable, Kind: "definitions", RetryAfter: failure.RetryAfter, Reason: strconv.Itoa(len(s.left)) + " objects could not be created for now",
		}
	case len(s.left) > 0:
		if parameter(v, triedName) == mine {
			return stageTried, nil
		}
		return stageTried, s.setParameter(ctx, triedName, mine)
	}
	return s.finish(ctx)
}

// finish records that the document is imported.
func (s *Starting) finish(ctx context.Context) (stage, error) {
	if err := s.setParameter(ctx, importedName, s.hash); err != nil {
		return stageUntried, err
	}
	if s.atStart.Always { // the next node imports the document, too
		if err := s.setParameter(ctx, importingName, ""); err != nil {
			return stageUntried, err
		}
	}
	return stageComplete, nil
}

// parameter returns the value of one of the global parameters about imports; "": it is not set.
func parameter(v *catalog.View, name string) string {
	p, ok := v.Parameter("", definitionsComponent, name)
	if !ok {
		return ""
	}
	return p.Value
}

// lifeOf names one life of a node.
func lifeOf(node string, epoch uint64) string { return node + " " + strconv.FormatUint(epoch, 10) }

// claimLives reports whether a claim is for the document with that hash and belongs to a node that is alive.
func claimLives(claim, hash string, s *cluster.Status) bool {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Alive && claim == hash+" "+lifeOf(string(n.ID), uint64(n.Epoch)) {
			return true
		}
	}
	return false
}

// setParameter commits one of the global parameters about imports. When it returns, this node's view has the parameter.
func (d *Definitions) setParameter(ctx context.Context, name, value string) error {
	_, err := d.commands.Propose(ctx, failure.Error{Kind: "parameter", Name: name}, &catalog.PutParameter{Parameter: catalog.Parameter{
		Component: definitionsComponent, Name: name, Value: value,
	}}, nil)
	return err
}

// loggedAtStart returns the reason to log an object: it was not imported, or was created with changes. For all other
// objects the reason is "".
func loggedAtStart(o *Imported) (made bool, why string) {
	warnings := strings.Join(o.Warnings, "; ")
	switch {
	case o.Outcome == Different, o.Outcome == Refused, o.Outcome == Failed:
		return false, o.Reason
	case o.Outcome == Skipped && warnings != "":
		return false, o.Reason + ": " + warnings
	case o.Outcome == Created:
		return true, warnings
	}
	return false, ""
}

// pass imports what is left of the document, with the rights of the node. It logs what differs from the document, in at
// most maxImportLines lines. waits reports that the node should not be ready before another pass.
func (s *Starting) pass(ctx context.Context) (waits bool, err error) {
	var failed []Imported
	left, lines := map[string]bool{}, 0
	causes := map[cause]int{}
	summary, err := s.Import(identity.WithIdentity(ctx, identity.Itself()), Request{Document: s.atStart.Document, only: s.left}, func(done []Imported, _ int) {
		for i := range done {
			o := &done[i]
			if o.Outcome != Failed {
				s.logObject(o, &lines)
				continue
			}
			left[o.Path] = true
			if causes[o.cause]++; len(failed) < maxImportLines {
				failed = append(failed, *o)
			}
		}
	})
	if err != nil {
		return false, err
	}
	first := s.left == nil
	if first {
		s.since = time.Now()
	}
	s.left = left
	s.waiting.Store(int64(len(left)))
	if s.stage == stageUntried && s.soon(ctx, causes) && time.Since(s.since) < importPatience {
		return true, nil
	}
	if s.stage == stageUntried || first || len(left) == 0 {
		for i := range failed {
			s.logObject(&failed[i], &lines)
		}
		level := slog.LevelInfo
		if lines > 0 {
			level = slog.LevelWarn
		}
		n := summary.Counts
		s.log.Log(ctx, level, "definitions are imported", "hash", s.hash, "created", n[Created], "unchanged", n[Unchanged],
			"different", n[Different], "refused", n[Refused], "skipped", n[Skipped], "failed", n[Failed])
	}
	return false, nil
}

// soon reports whether more could be created shortly: some objects found no leader, or need a version that is about to
// be finalised, as in a new cluster. A version that an operator has to finalise, or that an older build holds back, may
// take days.
func (s *Starting) soon(ctx context.Context, failed map[cause]int) bool {
	if failed[causeCluster] > 0 {
		return true
	}
	if failed[causeVersion] == 0 {
		return false
	}
	v, err := s.cluster.Catalog().Versions(ctx)
	if err != nil {
		return true
	}
	for _, h := range v.Held {
		if h.Reads > 0 {
			return false
		}
	}
	return len(v.Manual) == 0
}

// logObject logs an object that differs from the document, or why it does not exist. lines counts the lines.
func (s *Starting) logObject(o *Imported, lines *int) {
	made, why := loggedAtStart(o)
	if why == "" {
		return
	}
	if *lines++; *lines > maxImportLines {
		return
	}
	log := s.log.With("kind", o.Kind, "vhost", o.VHost, "name", o.Name, "path", o.Path, "reason", why)
	switch {
	case made:
		log.Warn("an object of the definitions is imported with changes")
	case o.Outcome == Failed:
		log.Warn("an object of the definitions cannot be created yet, and is tried again")
	default:
		log.Warn("an object of the definitions is not imported")
	}
}
