package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The file of the data directory with the token of this node's host (docs/security.md). It is the
// way back for those who have no administrator's password any more: who can read it can read all
// that the node has.
const (
	hostTokenFile     = "administrator.token"
	hostTokenFileMode = 0o600
)

// keepHostToken writes the token of this life in the place of the last one's. The data directory
// must be this process's by then. Without the file, as on a full disk, nobody knows the token.
func (n *node) keepHostToken(token string) {
	if !n.cfg.Authenticate() {
		return
	}
	name := filepath.Join(n.cfg.DataDir, hostTokenFile)
	if err := writeSecret(name, token+"\n"); err != nil {
		n.log.Warn("the token of this node's host cannot be written; it is tried at the next start", "file", name, "error", err)
	}
}

// HostToken returns the token of the host of the node that holds the data directory. The node
// takes it from a loopback address alone.
func HostToken(dataDir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dataDir, hostTokenFile))
	return strings.TrimSpace(string(text)), err
}

// writeSecret writes a file anew that its owner alone may read.
func writeSecret(name, text string) error {
	made := name + ".new"
	if err := os.Remove(made); err != nil && !errors.Is(err, fs.ErrNotExist) { // it may have other rights
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
