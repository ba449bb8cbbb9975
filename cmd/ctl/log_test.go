package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/testcluster"
)

// The log of all nodes, or of one, is shown with its newest lines of a level, and continues with new ones until
// ctrl-c.
func TestLogTail(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes: not in short mode")
	}
	c := testcluster.Start(t, 3)
	var logs [3]*slog.Logger
	for i := range logs {
		logs[i] = slog.New(c.Lines(i).Handler(slog.NewTextHandler(io.Discard, nil))) //nolint:sloglint // DiscardHandler takes no lines at all
		logs[i].Error("before", "queue", "orders")
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	begin := func(line string) (out *shared, ended chan int) {
		out, ended = &shared{}, make(chan int, 1)
		go func() {
			ended <- run(ctx, append([]string{"-a", strings.Join(c.Addrs(), ",")}, strings.Fields(line)...), out, out)
		}()
		return out, ended
	}
	shows := func(out *shared, texts ...string) {
		t.Helper()
		testcluster.Poll(t, "the lines are shown", func() error {
			for _, text := range texts {
				if !strings.Contains(out.String(), text) {
					return errors.New(text + " is not in\n" + out.String())
				}
			}
			return nil
		})
	}
	all, allEnded := begin("log tail --level error -n 1 -f")
	one, oneEnded := begin("log tail node-1 --level error -n 1 -f -o json")
	shows(all, "node-0 error before queue=orders", "node-1 error before queue=orders", "node-2 error before queue=orders")
	shows(one, `"message":"before"`)
	logs[0].Error("after", "queue", "bills")
	logs[1].Warn("too low")
	logs[1].Error("after", "queue", "mails")
	shows(all, "node-0 error after queue=bills", "node-1 error after queue=mails")
	shows(one, `"message":"after"`, `queue=mails`)
	interrupt()
	for what, ended := range map[string]chan int{all.String(): allEnded, one.String(): oneEnded} {
		if code := <-ended; code != 0 {
			t.Errorf("exit code %d after\n%s", code, what)
		}
	}
	for _, text := range []string{all.String(), one.String()} {
		if strings.Contains(text, "too low") {
			t.Errorf("a line of a lower level is in\n%s", text)
		}
	}
	if text := one.String(); strings.Contains(text, "bills") || strings.Contains(text, "node-0") {
		t.Errorf("the log of node-1 has lines of node-0:\n%s", text)
	}
}
