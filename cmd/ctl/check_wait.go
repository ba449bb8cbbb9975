package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/checks"
)

// checkEvery is the pause between the attempts of a check that waits.
const checkEvery = time.Second

// awaitNone calls look until it finds nothing, wait is over or ctx ends; with a wait of 0 it calls it once. It
// returns the last result. Errors that may pass are waited for, too. What it waits for is written to progress
// whenever that changes.
func awaitNone(ctx context.Context, wait time.Duration, progress io.Writer, look func() ([]checks.Problem, error)) ([]checks.Problem, error) {
	until := time.Now().Add(wait)
	written := ""
	for {
		found, err := look()
		left := time.Until(until)
		if err == nil && len(found) == 0 || err != nil && !mayPass(err) || left <= 0 {
			return found, err
		}
		if now := waitsFor(found, err); now != written {
			printf(progress, "waiting for %v at most: %s\n", left.Round(time.Second), now)
			written = now
		}
		select {
		case <-time.After(min(checkEvery, left)):
		case <-ctx.Done():
			return found, errors.Join(err, ctx.Err())
		}
	}
}

// waitsFor describes in a line what is still wrong.
func waitsFor(found []checks.Problem, err error) string {
	if err != nil {
		return err.Error()
	}
	first := found[0].Object + ": " + found[0].Problem
	if len(found) == 1 {
		return first
	}
	return fmt.Sprintf("%d problems, the first: %s", len(found), first)
}

// mayPass reports whether a check that failed may succeed later: no node answered, or one that just starts or stops
// did.
func mayPass(err error) bool {
	if away := (unreachableError{}); errors.As(err, &away) {
		return true
	}
	answer, is := errors.AsType[*client.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || is && (answer.Code == codes.Unavailable || answer.Code == codes.DeadlineExceeded)
}
