package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/quorate/quorate/backup"
)

// maxManifestBytes limits a manifest, which is kept in memory.
const maxManifestBytes = 256 << 20

// Reader reads a backup. One goroutine uses it.
type Reader struct {
	store Store
	keys  *Keys
	// Manifest lists what the backup has.
	Manifest Manifest
}

// Open reads the manifest of a backup.
func Open(ctx context.Context, s Store, k *Keys) (*Reader, error) {
	r := &Reader{store: s, keys: k}
	suffix := ""
	if k != nil {
		suffix = encryptedSuffix
	}
	b, err := r.whole(ctx, manifestName+suffix, maxManifestBytes)
	if errors.Is(err, ErrNoObject) {
		return nil, r.noManifest(ctx, err)
	}
	if err == nil {
		b, err = k.open(manifestName, b)
	}
	if err != nil {
		return nil, err
	}
	sum, err := r.whole(ctx, manifestSum+suffix, maxManifestBytes)
	if err == nil {
		sum, err = k.open(manifestSum, sum)
	}
	if err != nil {
		return nil, err
	}
	if want := object(manifestName, b).SHA256; !bytes.HasPrefix(sum, []byte(want)) {
		return nil, fmt.Errorf("archive: the manifest has SHA-256 %s, and %s says otherwise: one of them is damaged", want, manifestSum)
	}
	m, err := parseManifest(b)
	if err != nil {
		return nil, err
	}
	r.Manifest = *m
	return r, nil
}

// noManifest returns why there is no readable manifest.
func (r *Reader) noManifest(ctx context.Context, err error) error {
	other := manifestName
	if r.keys == nil {
		other += encryptedSuffix
	}
	found, err2 := r.store.Get(ctx, other)
	if err2 != nil {
		return fmt.Errorf("archive: there is no backup, or it is incomplete: %w", err)
	}
	if err := found.Close(); err != nil {
		return err
	}
	if r.keys == nil {
		return errors.New("archive: the backup is encrypted: name its key file")
	}
	return errors.New("archive: the backup is not encrypted: leave the key file out")
}

// whole reads an object as it is stored.
func (r *Reader) whole(ctx context.Context, name string, most int64) ([]byte, error) {
	in, err := r.store.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(in, most+1))
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, fmt.Errorf("archive: reading %s: %w", name, err)
	}
	if int64(len(b)) > most {
		return nil, fmt.Errorf("archive: %s has more than %d bytes", name, most)
	}
	return b, nil
}

// content returns the content of an object that the manifest lists, checked.
func (r *Reader) content(ctx context.Context, o Object) ([]byte, error) {
	b, err := r.whole(ctx, o.Name, o.Bytes)
	if err != nil {
		return nil, err
	}
	if got := object(o.Name, b); got != o {
		return nil, fmt.Errorf("archive: %s has %d bytes with SHA-256 %s, the manifest says %d bytes with %s: it is damaged", o.Name, got.Bytes, got.SHA256, o.Bytes, o.SHA256)
	}
	return r.keys.open(o.Name, b)
}

// Definitions returns the document of everything but messages; nil: the backup has none.
func (r *Reader) Definitions(ctx context.Context) ([]byte, error) {
	if r.Manifest.Definitions == nil {
		return nil, nil
	}
	return r.content(ctx, *r.Manifest.Definitions)
}

// Blocks returns the blocks of a copy one by one, and io.EOF behind the last one. A block stays valid.
func (r *Reader) Blocks(ctx context.Context, q *Queue) func() ([]byte, error) {
	var part bytes.Reader
	next := 0
	return func() ([]byte, error) {
		for part.Len() == 0 {
			if next == len(q.Parts) {
				return nil, io.EOF
			}
			b, err := r.content(ctx, q.Parts[next])
			if err != nil {
				return nil, err
			}
			part.Reset(b)
			next++
		}
		return backup.Read(&part, nil)
	}
}

// Verify reads everything, and compares it with the checksums and counts. seen is called after each queue.
func (r *Reader) Verify(ctx context.Context, seen func(*Queue)) error {
	if _, err := r.Definitions(ctx); err != nil {
		return err
	}
	for i := range r.Manifest.Queues {
		q := &r.Manifest.Queues[i]
		if err := r.VerifyQueue(ctx, q); err != nil {
			return fmt.Errorf("queue %q in vhost %q: %w", q.Name, q.VHost, err)
		}
		seen(q)
	}
	return nil
}

// VerifyQueue reads one copy, and compares it with the checksums and counts.
func (r *Reader) VerifyQueue(ctx context.Context, q *Queue) error {
	messages, size, ended := uint64(0), uint64(0), false
	for next := r.Blocks(ctx, q); ; {
		b, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		x, err := backup.Decode(b)
		if err != nil {
			return err
		}
		for i := range x.Messages {
			messages++
			size += uint64(len(x.Messages[i].Stored))
		}
		ended = x.Kind == backup.KindEnd
		if ended && (x.End != backup.End{Messages: messages, Bytes: size}) {
			return fmt.Errorf("archive: the copy has %d messages of %d bytes, and its end says %d of %d", messages, size, x.End.Messages, x.End.Bytes)
		}
	}
	if !ended || messages != q.Messages || size != q.Bytes {
		return fmt.Errorf("archive: the copy has %d messages of %d bytes, the manifest says %d of %d", messages, size, q.Messages, q.Bytes)
	}
	return nil
}

// Close closes the store.
func (r *Reader) Close() error { return r.store.Close() }
