package gossip

import (
	"context"
	"log/slog"
	"regexp"
	"strings"
	"sync"
)

// wrongKey is logged once by both sides when gossip cannot be read.
const wrongKey = "gossip cannot be read, the cluster keys differ: set the same key on all nodes of the cluster, or none on all"

// maxReasons bounds the reasons that are remembered; beyond, lines go out as debug ones.
const maxReasons = 1000

// logWriter takes memberlist's log lines and hands them to slog: what an operator must
// act on once, in words that say what to do; the rest as it is, at a lower level.
type logWriter struct {
	log     *slog.Logger
	cluster string
	label   *regexp.Regexp // the other cluster's name and address in a refusal

	mu     sync.Mutex
	logged map[string]bool
}

// newLogWriter knows memberlist's line about foreign labels, from which it makes a message of its own.
func newLogWriter(l *slog.Logger, cluster string) *logWriter {
	return &logWriter{
		log: l, cluster: cluster, logged: map[string]bool{},
		label: regexp.MustCompile(`unacceptable label (".*"): from=(\S+?)(:\d+)?$`),
	}
}

// Write implements io.Writer for package log: one line per call.
func (w *logWriter) Write(b []byte) (int, error) {
	line := strings.TrimSpace(string(b))
	level, text := slog.LevelDebug, line
	if rest, ok := strings.CutPrefix(line, "["); ok {
		if name, said, ok := strings.Cut(rest, "] "); ok {
			text = strings.TrimPrefix(said, "memberlist: ")
			if name == "ERR" || name == "ERROR" || name == "WARN" {
				level = slog.LevelInfo
			}
		}
	}
	if found := w.label.FindStringSubmatch(text); found != nil {
		if w.once("label " + found[1] + found[2]) {
			w.log.Error("gossip of another cluster is refused: set the same cluster name on both, or correct the list of nodes to join",
				"cluster", w.cluster, "their_cluster", strings.Trim(found[1], `"`), "from", found[2])
		}
		return len(b), nil
	}
	if level > slog.LevelDebug && strings.Contains(text, "crypt") {
		_, from, _ := strings.Cut(text, "from=")
		host, _, _ := strings.Cut(from, ":")
		if w.once("key " + host) {
			w.log.Error(wrongKey, "cluster", w.cluster, "error", text)
		}
		return len(b), nil
	}
	// Lines repeat with every probe; what memberlist reports about a node is worth one.
	if level > slog.LevelDebug && !w.once(text) {
		level = slog.LevelDebug
	}
	w.log.Log(context.Background(), level, "gossip", "said", text)
	return len(b), nil
}

// once reports whether the reason is new; after maxReasons different ones none is.
func (w *logWriter) once(reason string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.logged[reason] || len(w.logged) >= maxReasons {
		return false
	}
	w.logged[reason] = true
	return true
}
