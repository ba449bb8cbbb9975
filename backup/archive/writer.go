package archive

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/backup"
)

// PartBytes is the size from which a part of a copy ends, before encryption. A copy has two of them in memory.
const PartBytes = 16 << 20

// Writer writes a backup. One goroutine at a time uses it; copies may be written by turns.
type Writer struct {
	store    Store
	keys     *Keys
	manifest Manifest
}

// NewWriter begins a backup. The time is the point in time that the manifest names.
func NewWriter(s Store, k *Keys, m Manifest, now time.Time) (*Writer, error) {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	m.Format, m.ID, m.Began, m.Encrypted = Format, hex.EncodeToString(id[:]), now.UTC(), k != nil
	return &Writer{store: s, keys: k, manifest: m}, nil
}

// put stores an object and describes it.
func (w *Writer) put(ctx context.Context, name string, content []byte) (Object, error) {
	s, err := w.keys.seal(name, nil)
	if err == nil {
		err = s.add(content)
	}
	if err != nil {
		return Object{}, err
	}
	o, err := s.end()
	if err != nil {
		return Object{}, err
	}
	return o, w.store.Put(ctx, o.Name, s.stored)
}

// Definitions stores the document of everything but messages.
func (w *Writer) Definitions(ctx context.Context, document []byte) error {
	o, err := w.put(ctx, definitionsName, document)
	w.manifest.Definitions = &o
	return err
}

// Unsteady names queues of which messages may be missing; see Manifest.Unsteady.
func (w *Writer) Unsteady(queues ...string) {
	w.manifest.Unsteady = append(w.manifest.Unsteady, queues...)
}

// Missing names a queue that could not be copied; see Manifest.Missing.
func (w *Writer) Missing(queue string) { w.manifest.Missing = append(w.manifest.Missing, queue) }

// Copy begins the copy of a queue.
func (w *Writer) Copy() *Copy {
	w.manifest.Queues = append(w.manifest.Queues, Queue{})
	return &Copy{w: w, at: len(w.manifest.Queues) - 1}
}

// Drop leaves out the newest copies.
func (w *Writer) Drop(copies int) {
	w.manifest.Queues = w.manifest.Queues[:len(w.manifest.Queues)-copies]
}

// Copy is one queue's. Its blocks are checked as they come. A part is stored while the next one comes, so that a slow
// place and the node do not wait for each other. Abandon must be called before another copy of the Writer goes beyond its
// first block, unless this one is complete.
type Copy struct {
	w     *Writer
	at    int // in the manifest
	left  uint64
	part  *sealing // nil: the next block begins one
	size  int      // of its blocks, before encryption
	ended bool
	done  backup.End // what has come

	outcome chan error // of storing a part, has room for it; nil: none is being stored
	stored  []byte     // that part
	free    []byte     // memory for the next part
}

// Begin forgets the blocks that have come: the copy starts over, and its parts replace those that were stored.
func (c *Copy) Begin() {
	c.Abandon()
	c.w.manifest.Queues[c.at] = Queue{}
	c.part, c.ended, c.done = nil, false, backup.End{}
}

// Abandon gives up a copy that is not complete, and waits until nothing of it is still being stored. It has no effect
// on one that is complete, and may be called again.
func (c *Copy) Abandon() { _ = c.awaitStored() } // the copy does not matter any more

// awaitStored waits until the last part that was complete is stored.
func (c *Copy) awaitStored() error {
	if c.outcome == nil {
		return nil
	}
	err := <-c.outcome
	c.outcome, c.free, c.stored = nil, c.stored, nil
	return err
}

// Block adds a block, which is not kept. ctx must last until the copy has ended.
func (c *Copy) Block(ctx context.Context, b []byte) error {
	x, err := backup.Decode(b)
	if err != nil {
		return err
	}
	q := &c.w.manifest.Queues[c.at]
	switch x.Kind {
	case backup.KindHead:
		q.VHost, q.Name, q.UID, q.Index = x.Head.VHost, x.Head.Queue, uint64(x.Head.UID), x.Head.Index
		c.left = x.Head.Left
	case backup.KindEnd:
		q.Messages, q.Bytes, c.ended = x.End.Messages, x.End.Bytes, true
	case backup.KindMessages:
		c.done.Messages += uint64(len(x.Messages))
		for i := range x.Messages {
			c.done.Bytes += uint64(len(x.Messages[i].Stored))
		}
	}
	if err := c.add(q, b); err != nil {
		return err
	}
	if !c.ended && c.size < PartBytes {
		return nil
	}
	if err := c.store(ctx, q); err != nil || !c.ended {
		return err
	}
	return c.awaitStored()
}

// add appends a block to the part.
func (c *Copy) add(q *Queue, b []byte) (err error) {
	if c.part == nil {
		name := fmt.Sprintf(queuesName+"/%06d/%06d.blocks", c.at+1, len(q.Parts)+1)
		if c.part, err = c.w.keys.seal(name, c.free); err != nil {
			return err
		}
		c.size, c.free = 0, nil
	}
	c.size += len(b)
	return c.part.add(b)
}

// store begins to store the part, once the one before is stored.
func (c *Copy) store(ctx context.Context, q *Queue) error {
	o, err := c.part.end()
	if err == nil {
		err = c.awaitStored()
	}
	if err != nil {
		return err
	}
	q.Parts = append(q.Parts, o)
	content, outcome := c.part.stored, make(chan error, 1)
	c.outcome, c.stored, c.part = outcome, content, nil
	go func() { outcome <- c.w.store.Put(ctx, o.Name, content) }()
	return nil
}

// Done returns what has come since the copy began.
func (c *Copy) Done() (messages, bytes uint64) { return c.done.Messages, c.done.Bytes }

// Left returns how many messages had left the queue's backlog (backup.Head).
func (c *Copy) Left() uint64 { return c.left }

// End completes the copy.
func (c *Copy) End() error {
	if !c.ended {
		return errors.New("archive: the copy ended before its last block")
	}
	return nil
}

// Close writes the manifest, with which the backup is complete, and closes the store. After an error the backup is
// abandoned.
func (w *Writer) Close(ctx context.Context, now time.Time) (Manifest, error) {
	w.manifest.Ended = now.UTC()
	b, err := json.MarshalIndent(&w.manifest, "", "  ")
	if err != nil {
		return w.manifest, errors.Join(fmt.Errorf("archive: %w", err), w.store.Abandon())
	}
	if err := w.complete(ctx, b); err != nil {
		return w.manifest, errors.Join(err, w.store.Abandon())
	}
	return w.manifest, w.store.Close()
}

// complete stores the manifest. That of another backup, which was made in the same place meanwhile, stays.
func (w *Writer) complete(ctx context.Context, manifest []byte) error {
	other, err := complete(ctx, w.store)
	if err == nil && other {
		err = errors.New("archive: another backup was completed in the same place meanwhile, and this one may have replaced parts of it: " +
			"verify that one, and give each cluster a place of its own")
	}
	if err != nil {
		return err
	}
	sum := object(manifestName, manifest)
	if _, err := w.put(ctx, manifestSum, fmt.Appendf(nil, "%s  %s\n", sum.SHA256, manifestName)); err != nil {
		return err
	}
	_, err = w.put(ctx, manifestName, manifest)
	return err
}

// Abandon ends a backup that is not completed. What is left of it, if anything, is incomplete.
func (w *Writer) Abandon() error { return w.store.Abandon() }
