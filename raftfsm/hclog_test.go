package raftfsm

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// Raft's errors are mostly about a peer that is away: Info. The rest is Debug.
func TestRaftLogger(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := newRaftLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})).With("group", "g9"))
	if l.IsDebug() || l.IsWarn() || !l.IsError() {
		t.Error("levels")
	}
	l.Warn("hidden")
	l.With("peer", "n2").Error("failed to heartbeat", "error", "gone")
	l.Named("x").StandardLogger(nil).Print("hidden too")
	if got := out.String(); !strings.Contains(got, `level=INFO msg="raft: failed to heartbeat" group=g9 peer=n2 error=gone`) ||
		strings.Contains(got, "hidden") {
		t.Errorf("logged %q", got)
	}
	if l.Named("x").Name() != "x" || l.GetLevel() != hclog.NoLevel {
		t.Error("name or level")
	}
}
