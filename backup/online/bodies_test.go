package online

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/quorate/quorate/backup"
	"github.com/quorate/quorate/backup/archive"
	"github.com/quorate/quorate/message"
)

// bodies counts the bodies of a copy.
func bodies(ctx context.Context, t *testing.T, r *archive.Reader, q *archive.Queue, in map[string]int) {
	t.Helper()
	for next := r.Blocks(ctx, q); ; {
		b, err := next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		x, err := backup.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		for i := range x.Messages {
			m, err := message.Decode(x.Messages[i].Stored)
			if err != nil {
				t.Fatal(err)
			}
			in[string(m.Body)]++
		}
	}
}
