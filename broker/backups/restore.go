package backups

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/backup"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// progressEvery is the interval at which a restore reports progress.
const progressEvery = time.Second

// Target is where a copy is restored.
type Target struct {
	VHost, Queue string
	// Run identifies this restore of this copy: messages that an earlier call of the same run has stored are not
	// stored again.
	Run    quorumq.ProducerID
	DryRun bool // only check
}

// Progress is the progress of a restore.
type Progress struct {
	Stored, Refused uint64
}

// Restore stores the messages of a copy in a queue (BK-3). next returns its blocks in their order, which must not
// change afterwards, and nil behind the last one. report is called about once a second. A copy that lacks blocks, or
// with a message that the node would not take from a publisher, is refused; what was stored before that stays.
func (b *Backups) Restore(ctx context.Context, t Target, next func() ([]byte, error), report func(Progress) error) (Progress, error) {
	about := failure.Error{VHost: t.VHost, Kind: "queue", Name: t.Queue}
	v, err := b.cfg.Serving.ViewOf(t.VHost)
	if err != nil {
		return Progress{}, err
	}
	rec, err := serving.LookUp(v, t.VHost, t.Queue)
	if err != nil {
		return Progress{}, err
	}
	if v.Version() < catalog.VersionBackups {
		return Progress{}, &failure.Error{
			Class: failure.PreconditionFailed, VHost: t.VHost, Kind: "queue", Name: t.Queue,
			Reason: fmt.Sprintf("cannot be restored yet: stored version %d must be finalised, the cluster has finalised %d; see quoratectl upgrade finalize --dry-run", catalog.VersionBackups, v.Version()),
		}
	}
	r := &restoring{target: t, maxBody: b.cfg.MaxBodyBytes, about: about}
	if !t.DryRun {
		if r.queue, err = b.open(rec.UID); err != nil {
			return Progress{}, failure.Translate(err, about)
		}
	}
	reported := time.Now()
	for {
		block, err := next()
		if err == nil && block != nil {
			err = r.block(ctx, block)
		}
		if err != nil {
			r.await(ctx)
			return r.progress(), failure.Translate(err, about)
		}
		if block == nil {
			break
		}
		if now := time.Now(); now.Sub(reported) >= progressEvery {
			reported = now
			if err := report(r.progress()); err != nil {
				return r.progress(), err
			}
		}
	}
	if !r.await(ctx) {
		return r.progress(), ctx.Err()
	}
	if err := r.failed(); err != nil {
		return r.progress(), failure.Translate(err, about)
	}
	if !r.ended {
		return r.progress(), r.refuse("the copy is incomplete: its last block is missing")
	}
	return r.progress(), nil
}

// restoring is one restore. Its goroutine reads blocks; answers come from any.
type restoring struct {
	target  Target
	queue   restorer // nil: a dry run
	maxBody int
	about   failure.Error

	begun, ended bool
	messages     uint64
	bytes        uint64
	waiting      sync.WaitGroup

	mu   sync.Mutex
	done Progress
	err  error // the first that is no refusal by a limit: nothing more is stored after it
}

// refuse names what is wrong with the copy.
func (r *restoring) refuse(format string, a ...any) error {
	e := r.about
	e.Class, e.Reason = failure.PreconditionFailed, fmt.Sprintf(format, a...)
	return &e
}

// progress returns the answers so far.
func (r *restoring) progress() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done
}

// await waits for the answers, as long as somebody waits for the outcome: a queue without a leader answers when it has
// one again. It reports whether all have come. No message may be added any more.
func (r *restoring) await(ctx context.Context) bool {
	all := make(chan struct{})
	go func() {
		r.waiting.Wait()
		close(all)
	}()
	select {
	case <-all:
		return true
	case <-ctx.Done():
		return false
	}
}

// failed returns the first error that is no refusal by a limit.
func (r *restoring) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// answer counts the outcome of one message.
func (r *restoring) answer(err error) {
	r.mu.Lock()
	switch {
	case err == nil:
		r.done.Stored++
	case errors.Is(err, traffic.ErrRefused) && !errors.Is(err, traffic.ErrDrainDeleting): // by a limit
		r.done.Refused++
	case r.err == nil:
		r.err = err
	}
	r.mu.Unlock()
	r.waiting.Done()
}

// block checks a block and stores its messages.
func (r *restoring) block(ctx context.Context, b []byte) error {
	x, err := backup.Decode(b)
	switch {
	case err != nil:
		return r.refuse("a block cannot be restored: %v", err)
	case r.ended:
		return r.refuse("blocks follow the last block of the copy")
	case (x.Kind == backup.KindHead) == r.begun:
		return r.refuse("the copy must begin with its head, and have only one")
	}
	r.begun = true
	switch x.Kind {
	case backup.KindMessages:
		if x.First != r.messages+1 {
			return r.refuse("message %d of the copy follows message %d: blocks are missing", x.First, r.messages)
		}
		for i := range x.Messages {
			if err := r.message(ctx, &x.Messages[i]); err != nil {
				return err
			}
		}
	case backup.KindEnd:
		r.ended = true
		if x.End.Messages != r.messages || x.End.Bytes != r.bytes {
			return r.refuse("the copy has %d messages of %d bytes, and should have %d of %d", r.messages, r.bytes, x.End.Messages, x.End.Bytes)
		}
	case backup.KindHead:
	}
	return nil
}

// message checks a message as a publish would, and stores it.
func (r *restoring) message(ctx context.Context, m *backup.Message) error {
	r.messages++
	r.bytes += uint64(len(m.Stored))
	decoded, err := message.Decode(m.Stored)
	if err == nil {
		err = message.CheckLimits(decoded, r.maxBody)
	}
	if err != nil {
		return r.refuse("message %d of the copy: %v", r.messages, err)
	}
	if r.queue == nil {
		r.waiting.Add(1)
		r.answer(nil)
		return nil
	}
	if err := r.failed(); err != nil {
		return err
	}
	r.waiting.Add(1)
	err = r.queue.Restore(ctx, quorumq.NewMessage{
		Size: uint32(len(decoded.Body)), TTLMs: m.TTLMs, Priority: m.Priority, Delay: quorumq.Delay{At: m.Due},
		Producer: &r.target.Run, ProducerSeq: r.messages, Past: &m.Past,
	}, m.Stored, r.answer)
	if err != nil {
		r.waiting.Done()
	}
	return err
}
