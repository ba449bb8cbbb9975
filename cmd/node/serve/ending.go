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

// Exit codes of a node, from sysexits.h. docs/operations.md, "How a node ends", explains what they
// mean and what the next start does.
const (
	ExitError      = 1  // settings, or any other error
	ExitDamaged    = 65 // stored data is damaged that the node cannot do without
	ExitStopHangs  = 70 // the node was asked to stop, and a part of it has not ended in time
	ExitNoData     = 73 // the data directory cannot be used: it is read-only, or not this user's
	ExitDiskFailed = 74 // the disk has failed a read, a write or a sync
	ExitDiskHangs  = 75 // the disk has accepted no write for too long
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
	// refusalDelay is how long a node that cannot start because of its disk waits before it ends: a
	// supervisor that restarts it at once would otherwise do so continuously.
	refusalDelay = 5 * time.Second
	// againFirst and againLongest bound the wait before a node restarts in its process; the first
	// restart does not wait.
	againFirst   = 10 * time.Second
	againLongest = 10 * time.Minute
	// roomEvery is the time between two attempts to start on a disk that is full.
	roomEvery = 2 * time.Second
)

// againAfter returns the wait before a restart in the process, after some restarts before.
func againAfter(before uint64) time.Duration {
	if before == 0 {
		return 0
	}
	return min(againFirst<<min(before-1, 10), againLongest)
}

// slowly waits before a node ends if its next start will fail too.
func (n *node) slowly(ctx context.Context, err error) {
	if code := ExitCode(err); code != ExitError {
		n.log.Error("the node cannot start", "node", n.cfg.NodeID, "exit_code", code, "ends_in", refusalDelay, "error", err)
		_ = wait.For(ctx, refusalDelay)
	}
}

// join starts the node's part of the cluster. If the disk is full it waits for somebody to make
// room: ending would make none.
func (n *node) join(ctx context.Context, c cluster.Config) error {
	for logged := false; ; logged = true {
		var err error
		if n.part, err = cluster.Start(ctx, c); err == nil {
			return nil
		}
		_ = c.Peers.Close() // the error of Start counts
		if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
			return err
		}
		if !logged {
			n.log.Error("the disk is full: the node starts when there is room", "data_dir", n.cfg.DataDir, "error", err)
		}
		n.health.cannotStart(err)
		n.dropFailures()
		if c.Peers, err = n.listenAgain(ctx); err != nil {
			return err
		}
	}
}

// listenAgain opens the listener for peers after a while. Meanwhile another process may have used
// its port for an outgoing connection; that ends.
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

// dropFailures discards what an attempt to start has reported about the disk.
func (n *node) dropFailures() {
	for range len(n.failed) {
		if err := <-n.failed; !errors.Is(err, cluster.ErrDiskFailed) {
			n.failed <- err
		}
	}
}
