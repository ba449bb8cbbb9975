package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The file of the data directory with the token of this node's host (docs/security.md). With it, operators who have
// lost every administrator's password can log in again. Whoever can read it can read all of the node's data anyway.
const (
	hostTokenFile     = "administrator.token"
	hostTokenFileMode = 0o600
)

// keepHostToken replaces the file with the token of this life. This process must own the data
// directory by then. Without the file, as on a full disk, nobody knows the token.
func (n *node) keepHostToken(token string) {
	if !n.cfg.Authenticate() {
		return
	}
	name := filepath.Join(n.cfg.DataDir, hostTokenFile)
	if err := writeSecret(name, token+"\n"); err != nil {
		n.log.Warn("cannot write the token of this node's host; the next start tries again", "file", name, "error", err)
	}
}

// HostToken returns the host token of the node that owns the data directory. The node accepts it
// from loopback addresses only.
func HostToken(dataDir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dataDir, hostTokenFile))
	return strings.TrimSpace(string(text)), err
}

// writeSecret replaces a file; only its owner may read it.
func writeSecret(name, text string) error {
	made := name + ".new"
	if err := os.Remove(made); err != nil && !errors.Is(err, fs.ErrNotExist) { // an old one may have another mode
		return err
	}
	if err := os.WriteFile(made, []byte(text), hostTokenFileMode); err != nil {
		return err
	}
	if err := os.Rename(made, name); err != nil {
		return fmt.Errorf("after it was written: %w", err)
	}
	return nil
}
