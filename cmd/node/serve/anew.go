package serve

import (
	"log/slog"
	"os"
	"strings"

	"github.com/quorate/quorate/cmd/node/config"
)

// Anew is how a running node takes over changed settings (SIGHUP).
type Anew struct {
	Asked <-chan os.Signal // each signal asks for a reload; nil: there is none
	// Load reads all settings and checks the files in them.
	Load  func() (*config.Config, error)
	Level *slog.LevelVar // level of the log
}

// readAnew takes over the present settings and files as far as that needs no restart. If anything
// is wrong, it changes nothing.
func (n *node) readAnew() {
	next, err := n.anew.Load()
	if err != nil {
		n.log.Error("cannot reload the settings; the present ones stay in force: correct them, and send SIGHUP again", "node", n.cfg.NodeID, "error", err)
		return
	}
	taken, restart := n.cfg.Take(next)
	if level, err := n.cfg.Level(); err == nil {
		n.anew.Level.Set(level)
	}
	n.replanMemory()
	n.reloadTLS()
	if err := n.readMetricsToken(); err != nil { // Load has just checked it
		n.log.Error("cannot reload the token for /metrics/queues; the old one stays in force", "error", err)
	}
	n.warnOfSecrets()
	n.log.Info("settings were reloaded", "node", n.cfg.NodeID, "taken_over", list(taken))
	if len(restart) > 0 {
		n.log.Warn("some changed settings apply from the next start: restart the node", "node", n.cfg.NodeID, "settings", list(restart))
	}
}

// list joins the names of settings for the log.
func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
