package serve

import (
	"crypto/sha256"
	"os"
	"strings"
	"time"

	"github.com/quorate/quorate/cmd/node/config"
	"github.com/quorate/quorate/internal/logtail"
)

// settingsEvery is the interval between checks of the file with settings.
const settingsEvery = 10 * time.Second

// Anew is how a running node takes over changed settings: on SIGHUP, and when their file has changed.
type Anew struct {
	Asked <-chan os.Signal // each signal asks for a reload; nil: no signals
	File  string           // with settings; "": none
	// Load reads all settings and checks the files in them.
	Load  func() (*config.Config, error)
	Level *logtail.Level // level of the log
	Lines *logtail.Tail  // its newest lines

	// fault is why the last reload failed, "" if it did not.
	fault string
}

// watchedFile notices that a file has other content than before. One goroutine uses it.
type watchedFile struct {
	name string
	seen [sha256.Size]byte
}

// changed compares with the last content that could be read: what replaces a file may take it away for a moment.
func (f *watchedFile) changed() bool {
	text, err := os.ReadFile(f.name)
	if err != nil {
		return false
	}
	was := f.seen
	f.seen = sha256.Sum256(text)
	return f.seen != was
}

// readAnew takes over the present settings and files as far as that needs no restart. If anything
// is wrong, it changes nothing, and is called again with each check of the file; the same fault is logged once.
func (n *node) readAnew() {
	next, err := n.anew.Load()
	was := n.anew.fault
	n.anew.fault = ""
	if err != nil {
		if n.anew.fault = err.Error(); n.anew.fault == was {
			return
		}
		n.log.Error("cannot reload the settings; the present ones stay in force: correct them", "node", n.cfg.NodeID, "error", err)
		return
	}
	applied, restart := n.cfg.Apply(next)
	n.keepSettings()
	if level, err := n.cfg.Level(); err == nil {
		n.anew.Level.Settings(level)
	}
	n.replanMemory()
	n.reloadTLS()
	if err := n.readMetricsToken(); err != nil { // Load has just checked it
		n.log.Error("cannot reload the token for /metrics/queues; the old one stays in force", "error", err)
	}
	n.warnOfSecrets()
	n.log.Info("settings were reloaded", "node", n.cfg.NodeID, "taken_over", list(applied))
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
