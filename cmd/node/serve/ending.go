package serve

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"syscall"
	"time"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/internal/wait"
)

// Exit codes of a node, of sysexits.h. What they mean and what the next start does stands in
// docs/operations.md, "How a node ends".
const (
	ExitError      = 1  // the settings, or anything else
	ExitDamaged    = 65 // something that is stored is damaged, and the node cannot do without it
	ExitNoData     = 73 // the data directory cannot be used: it is read-only, or not this user's
	ExitDiskFailed = 74 // the disk has failed a read, a write or a sync
	ExitDiskHangs  = 75 // the disk has taken nothing for too long
)

// ExitCode returns the exit code of a node that Run has ended with an error.
func ExitCode(err error) int {
	switch {
	case errors.Is(err, sealed.ErrDamaged):
		return ExitDamaged
	case errors.Is(err, disk.ErrHangs):
		return ExitDiskHangs
	case errors.Is(err, cluster.ErrDiskFailed), errors.Is(err, syscall.EIO):
		return ExitDiskFailed
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOTDIR):
		return ExitNoData
	}
	return ExitError
}

const (
	// refusalDelay is how long a node waits that cannot start because of its disk, before it
	// ends: a supervisor that starts it again at once would do so all the time.
	refusalDelay = 5 * time.Second
	// againFirst and againLongest bound the wait before a node begins anew in its process, but
	// for the first time.
	againFirst   = 10 * time.Second
	againLongest = 10 * time.Minute
	// roomEvery is the time between two attempts to start on a disk that is full.
	roomEvery = 2 * time.Second
)

// againAfter returns the wait before a node begins anew that did so before.
func againAfter(before uint64) time.Duration {
	if before == 0 {
		return 0
	}
	return min(againFirst<<min(before-1, 10), againLongest)
}

// slowly waits before a node ends whose next start will not go better.
func (n *node) slowly(ctx context.Context, err error) {
	if code := ExitCode(err); code != ExitError {
		n.log.Error("the node cannot start", "node", n.cfg.NodeID, "exit_code", code, "ends_in", refusalDelay, "error", err)
		_ = wait.For(ctx, refusalDelay)
	}
}

// join starts the node's part of the cluster. A disk that is full is waited for: somebody
// makes room, and to end would make none.
func (n *node) join(ctx context.Context, c cluster.Config) error {
	for told := false; ; told = true {
		var err error
		if n.part, err = cluster.Start(ctx, c); err == nil {
			return nil
		}
		_ = c.Peers.Close() // an error of Start is what matters
		if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
			return err
		}
		if !told {
			n.log.Error("the disk is full: the node starts when there is room", "data_dir", n.cfg.DataDir, "error", err)
		}
		n.health.cannotStart(err)
		n.dropFailures()
		if c.Peers, err = n.listenAgain(ctx); err != nil {
			return err
		}
	}
}

// listenAgain opens the listener for peers after a while. Another process may have taken its
// port since for a connection of its own, which it gives back.
func (n *node) listenAgain(ctx context.Context) (l net.Listener, err error) {
	for {
		if err := wait.For(ctx, roomEvery); err != nil {
			return nil, err
		}
		if l, err = n.listenPeers(ctx); !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
		n.log.Warn("the port for peers is in use since the last attempt to start; it is tried again", "error", err)
	}
}

// dropFailures forgets what an attempt to start has told of the disk.
func (n *node) dropFailures() {
	for range len(n.failed) {
		if err := <-n.failed; !errors.Is(err, cluster.ErrDiskFailed) {
			n.failed <- err
		}
	}
}
