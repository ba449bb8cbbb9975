package online

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/quorate/quorate/backup"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// blocks returns the blocks of a copy of n messages.
func blocks(t *testing.T, n int, stored []byte) (all [][]byte) {
	t.Helper()
	w := backup.NewWriter(func(b []byte) ([]byte, error) {
		all = append(all, b)
		return nil, nil
	})
	err := w.Head(&backup.Head{VHost: "/", Queue: "q", UID: 1024, Messages: uint64(n)})
	for range n {
		err = errors.Join(err, w.Message(&backup.Message{TTLMs: quorumq.Unlimited, Priority: quorumq.DefaultPriority, Stored: stored}))
	}
	if err = errors.Join(err, w.End()); err != nil {
		t.Fatal(err)
	}
	return all
}

// A node refuses blocks that are no whole copy, with the class of bad input and not as a fault of its own, and takes
// them from administrators alone.
func TestRefused(t *testing.T) {
	x := start(t)
	x.declare("to", nil)
	stored := message.Append(nil, &message.Message{Body: []byte("body")})
	good := blocks(t, 3, stored)
	damaged := bytes.Clone(good[1])
	damaged[len(damaged)-1] ^= 1
	newer := bytes.Clone(good[1])
	newer[0]++
	restore := func(c *client.Client, queue string, all [][]byte) (client.Restored, error) {
		ctx, cancel := context.WithTimeout(x.at, deadline)
		defer cancel()
		return c.RestoreQueue(ctx, client.RestoreQueueRequest{Queue: queue, Run: [16]byte{1}, Blocks: func() (func() ([]byte, error), error) {
			next := 0
			return func() ([]byte, error) {
				if next == len(all) {
					return nil, io.EOF
				}
				next++
				return all[next-1], nil
			}, nil
		}})
	}
	for name, all := range map[string][][]byte{
		"nothing":             nil,
		"no head":             good[1:],
		"two heads":           {good[0], good[0]},
		"no end":              good[:2],
		"no messages":         {good[0], good[2]},
		"messages twice":      {good[0], good[1], good[1]},
		"more behind the end": append(good[:3:3], good[1]),
		"a damaged block":     {good[0], damaged, good[2]},
		"a newer block":       {good[0], newer, good[2]},
		"no block":            {good[0], []byte("x")},
		"no message":          blocks(t, 1, []byte("this is none")),
		"an empty message":    blocks(t, 1, nil),
		"a large message":     blocks(t, 1, message.Append(nil, &message.Message{Body: make([]byte, message.DefaultMaxBodyBytes+1)})),
	} {
		if _, err := restore(x.c, "to", all); client.ClassOf(err) != client.PreconditionFailed {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := restore(x.c, "nobody", good); client.ClassOf(err) != client.NotFound {
		t.Errorf("a queue that does not exist: %v", err)
	}
	if got, err := restore(x.c, "to", good); err != nil || got.Stored != 3 {
		t.Errorf("a whole copy, some of which was stored before: %+v, %v", got, err)
	}
	if got := x.messages("/", "to"); len(got) != 3 {
		t.Errorf("the queue has %v", got)
	}

	_, err := x.c.PutUser(x.at, client.User{Name: "app", Password: "secret"})
	x.must(err)
	_, err = x.c.SetPermission(x.at, client.Permission{User: "app", VHost: "/", Configure: ".*", Write: ".*", Read: ".*"})
	x.must(err)
	app, err := client.Dial(x.at, client.Config{Addresses: x.Addresses(), Username: "app", Password: "secret"})
	x.must(err)
	defer app.Close()
	if _, err := restore(app, "to", good); client.ClassOf(err) != client.AccessRefused {
		t.Errorf("a user without the tag restores: %v", err)
	}
	err = app.ExportQueue(x.at, client.ExportQueueRequest{Queue: "to"}, func() error { return nil }, func([]byte) error { return nil })
	if client.ClassOf(err) != client.AccessRefused {
		t.Errorf("a user without the tag exports: %v", err)
	}
}
