package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// Format is the number of the manifest's form.
const Format = 1

const (
	manifestName    = "manifest.json"
	manifestSum     = "manifest.sha256"
	definitionsName = "definitions.json"
	queuesName      = "queues"
)

// Manifest lists what a backup has.
type Manifest struct {
	Format  int    `json:"format"`
	ID      string `json:"id"`      // 16 random bytes in hexadecimal
	Cluster string `json:"cluster"` // name of the cluster
	Version string `json:"version"` // of the program that wrote the backup
	// Began is the point in time: what was confirmed before it is in the backup unless it had left its queue.
	Began       time.Time `json:"began"`
	Ended       time.Time `json:"ended"`
	Encrypted   bool      `json:"encrypted"`
	VHost       string    `json:"vhost,omitempty"` // the only one; empty: all
	Definitions *Object   `json:"definitions,omitempty"`
	Queues      []Queue   `json:"queues"`
	// Unsteady names queues that dead-letter to each other in a circle, and did while they were copied: messages
	// that moved then may be missing.
	Unsteady []string `json:"unsteady,omitempty"`
	// Missing names queues that could not be copied, with the reason, such as that a queue has no leader.
	Missing []string `json:"missing,omitempty"`
}

// Object is a stored object.
type Object struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`  // as stored
	SHA256 string `json:"sha256"` // of the stored bytes
}

// Queue is a copy of a queue.
type Queue struct {
	VHost    string `json:"vhost"`
	Name     string `json:"name"`
	UID      uint64 `json:"uid"`
	Index    uint64 `json:"index"` // of its log
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"` // of its messages
	// Parts have the blocks in their order, whole ones.
	Parts []Object `json:"parts"`
}

// object describes stored bytes.
func object(name string, content []byte) Object {
	sum := sha256.Sum256(content)
	return Object{Name: name, Bytes: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
}

// parseManifest reads a manifest of this build's format.
func parseManifest(b []byte) (*Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("archive: the manifest is damaged: %w", err)
	}
	if m.Format != Format {
		return nil, fmt.Errorf("archive: the backup has format %d, this build knows %d: use a newer quoratectl", m.Format, Format)
	}
	return &m, nil
}
