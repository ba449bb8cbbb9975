package archive

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/backup"
	"github.com/quorate/quorate/quorumq"
)

// slowStore takes an object when the test lets it.
type slowStore struct {
	t       *testing.T
	putting chan string // names, as they come
	outcome chan error  // of each
	busy    atomic.Int32
	content map[string][]byte // of the one that Put is called for, and those before
}

func newSlowStore(t *testing.T) *slowStore {
	return &slowStore{t: t, putting: make(chan string), outcome: make(chan error), content: map[string][]byte{}}
}

func (s *slowStore) Put(ctx context.Context, name string, content []byte) error {
	if s.busy.Add(1) > 1 {
		s.t.Error("two objects are stored at once")
	}
	defer s.busy.Add(-1)
	select {
	case s.putting <- name:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-s.outcome:
		if err == nil {
			s.content[name] = bytes.Clone(content) // as it is when it is stored, not when the call began
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slowStore) Get(context.Context, string) (io.ReadCloser, error) { return nil, ErrNoObject }
func (s *slowStore) Close() error                                       { return nil }
func (s *slowStore) Abandon() error                                     { return nil }

// blocksOf returns the blocks of a copy that fills some parts and a half.
func blocksOf(t *testing.T, parts int) (blocks [][]byte) {
	t.Helper()
	w := backup.NewWriter(func(b []byte) ([]byte, error) {
		blocks = append(blocks, b)
		return nil, nil
	})
	err := w.Head(&backup.Head{VHost: "/", Queue: "q", UID: 1024})
	for i := range parts*2 + 1 {
		m := backup.Message{TTLMs: quorumq.Unlimited, Priority: quorumq.DefaultPriority, Stored: bytes.Repeat([]byte{byte(i)}, PartBytes/2)}
		err = errors.Join(err, w.Message(&m))
	}
	if err = errors.Join(err, w.End()); err != nil {
		t.Fatal(err)
	}
	return blocks
}

// sent is a copy whose blocks are added by a goroutine of their own.
type sent struct {
	*Copy
	added atomic.Int32 // blocks
	ended chan error
}

func send(ctx context.Context, c *Copy, blocks [][]byte) *sent {
	s := &sent{Copy: c, ended: make(chan error, 1)}
	go func() {
		for _, b := range blocks {
			if err := c.Block(ctx, b); err != nil {
				s.ended <- err
				return
			}
			s.added.Add(1)
		}
		s.ended <- c.End()
	}()
	return s
}

// TestBeside: while a place takes a part, the blocks of the next one come, and no more than that. What is stored is what
// the manifest says.
func TestBeside(t *testing.T) {
	both, public := key(t)
	for name, k := range map[string]*Keys{"plain": nil, "encrypted": public} {
		t.Run(name, func(t *testing.T) {
			store := newSlowStore(t)
			w, err := NewWriter(store, k, Manifest{}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			c := w.Copy()
			c.Begin()
			blocks := blocksOf(t, 3)
			s := send(t.Context(), c, blocks)
			for part := range 4 {
				<-store.putting
				// The head and a part, and then as many blocks as the next part has, except for the one with which it
				// is full.
				want := int32(min(1+2*(part+1)+1, len(blocks)-1))
				for deadline := time.Now().Add(30 * time.Second); s.added.Load() < want && time.Now().Before(deadline); {
					time.Sleep(time.Millisecond)
				}
				if got := s.added.Load(); got != want {
					t.Errorf("%d blocks are taken while part %d is stored, want %d", got, part+1, want)
				}
				store.outcome <- nil
			}
			if err := <-s.ended; err != nil {
				t.Fatal(err)
			}
			q := &w.manifest.Queues[0]
			r := &Reader{store: loaded{store}, keys: both}
			if k == nil {
				r.keys = nil
			}
			next, all := r.Blocks(t.Context(), q), []byte(nil)
			for {
				b, err := next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, b...)
			}
			if len(q.Parts) != 4 || !bytes.Equal(all, bytes.Join(blocks, nil)) {
				t.Errorf("%d parts have %d bytes, or others than were copied", len(q.Parts), len(all))
			}
		})
	}
}

// loaded reads what a slowStore has.
type loaded struct{ *slowStore }

func (l loaded) Get(_ context.Context, name string) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(l.content[name])), nil
}

// TestBesideFails: a part that is not stored ends its copy, and no later one. Whoever starts over, or gives up, waits
// until the place is free.
func TestBesideFails(t *testing.T) {
	why := errors.New("no space left")
	store := newSlowStore(t)
	w, err := NewWriter(store, nil, Manifest{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	blocks := blocksOf(t, 3)
	c := w.Copy()
	c.Begin()
	s := send(t.Context(), c, blocks)
	<-store.putting
	store.outcome <- why
	if err := <-s.ended; !errors.Is(err, why) {
		t.Errorf("it ends with %v", err)
	}

	c.Begin() // on another node
	for _, b := range blocks[:3] {
		if err := c.Block(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	first := <-store.putting
	given := make(chan struct{})
	go func() {
		defer close(given)
		c.Begin()
	}()
	select {
	case <-given:
		t.Error("the copy begins anew while a part of it is stored")
	case store.outcome <- why:
	}
	<-given
	s = send(t.Context(), c, blocks)
	for part := range 4 {
		if again := <-store.putting; part == 0 && again != first {
			t.Errorf("%s is not replaced, but %s is stored", first, again)
		}
		store.outcome <- nil
	}
	if err := <-s.ended; err != nil {
		t.Errorf("another try: %v", err)
	}
	c.Abandon()

	ctx, cancel := context.WithCancel(t.Context())
	broken := w.Copy()
	broken.Begin()
	s = send(ctx, broken, blocks)
	if name := <-store.putting; !strings.Contains(name, "000002/") {
		t.Errorf("%s is stored", name)
	}
	cancel()
	if err := <-s.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	broken.Abandon()
	w.Drop(1)
	done := make(chan error, 1)
	go func() {
		_, err := w.Close(t.Context(), time.Now())
		done <- err
	}()
	for _, want := range []string{manifestSum, manifestName} {
		if name := <-store.putting; name != want {
			t.Errorf("%s is stored, want %s", name, want)
		}
		store.outcome <- nil
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
