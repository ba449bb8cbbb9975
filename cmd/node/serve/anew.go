package serve

import (
	"log/slog"
	"os"
	"strings"

	"github.com/quorate/quorate/cmd/node/config"
)

// Anew is how a node that runs takes settings that have changed (SIGHUP).
type Anew struct {
	Asked <-chan os.Signal // each asks for it; nil: nobody does
	// Load reads all settings, and checks the files that they name.
	Load  func() (*config.Config, error)
	Level *slog.LevelVar // of the log
}

// readAnew takes settings and files as they are now, as far as that needs no restart. If
// anything is wrong with them all stay as they were.
func (n *node) readAnew() {
	next, err := n.anew.Load()
	if err != nil {
		n.log.Error("settings cannot be read anew, the ones in force stay: mend them, and send SIGHUP again", "node", n.cfg.NodeID, "error", err)
		return
	}
	taken, restart := n.cfg.Take(next)
	if level, err := n.cfg.Level(); err == nil {
		n.anew.Level.Set(level)
	}
	n.replanMemory()
	n.reloadTLS()
	if err := n.readMetricsToken(); err != nil { // it was good a moment ago
		n.log.Error("the token for /metrics/queues cannot be read anew, the old one stays in force", "error", err)
	}
	n.warnOfSecrets()
	n.log.Info("settings were read anew", "node", n.cfg.NodeID, "taken_over", list(taken))
	if len(restart) > 0 {
		n.log.Warn("settings have changed that count from the next start on: restart the node", "node", n.cfg.NodeID, "settings", list(restart))
	}
}

// list joins the names of settings for the log.
func list(names []string) string {
	if len(names) == 0 {
		return "none has changed"
	}
	return strings.Join(names, ", ")
}
