package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// restartProgram replaces a program that restarts a broker: it creates a file and ends when the
// file is removed.
const restartProgram = `#!/bin/sh
asked="$0.asked.$$"
: >"$asked"
while [ -e "$asked" ]; do sleep 0.1; done
`

// restarts creates a program with this name in a directory. Each run of the program restarts the
// nodes once, until ctx ends. The channel gets a failure, after which no more restarts are done, or
// nil at the end.
func (q *Quorate) restarts(ctx context.Context, stop func(), dir, name string) (failed <-chan error, err error) {
	program := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(dir, 0o750), os.WriteFile(program, []byte(restartProgram), 0o700)); err != nil {
		return nil, err
	}
	result := make(chan error, 1)
	go func() {
		defer close(result)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			asked, err := filepath.Glob(program + ".asked.*")
			for _, file := range asked {
				err = errors.Join(err, q.restart(ctx), os.Remove(file))
			}
			if err != nil && ctx.Err() == nil {
				result <- fmt.Errorf("restart of the broker: %w", err)
				stop()
				return
			}
		}
	}()
	return result, nil
}

// restart stops all nodes and starts them again.
func (q *Quorate) restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := q.Cluster.Stop(ctx); err != nil {
		return err
	}
	return q.Cluster.Start(ctx)
}
