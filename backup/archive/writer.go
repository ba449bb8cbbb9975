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

// PartBytes is the size from which a part of a copy ends, before encryption.
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
	name, sealed, err := w.keys.seal(name, content)
	if err != nil {
		return Object{}, err
	}
	return object(name, sealed), w.store.Put(ctx, name, sealed)
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

// Copy is one queue's. Its blocks are checked as they come.
type Copy struct {
	w     *Writer
	at    int // in the manifest
	left  uint64
	part  []byte
	ended bool
	done  backup.End // what has come
}

// Begin forgets the blocks that have come: the copy begins anew, and its parts replace those that were stored.
func (c *Copy) Begin() {
	c.w.manifest.Queues[c.at] = Queue{}
	c.part, c.ended, c.done = c.part[:0], false, backup.End{}
}

// Block adds a block, which is not kept.
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
	c.part = append(c.part, b...)
	if !c.ended && len(c.part) < PartBytes {
		return nil
	}
	name := fmt.Sprintf(queuesName+"/%06d/%06d.blocks", c.at+1, len(q.Parts)+1)
	o, err := c.w.put(ctx, name, c.part)
	q.Parts = append(q.Parts, o)
	c.part = c.part[:0]
	return err
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
