package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	"filippo.io/age"
)

// sealing is an object in the making, in memory. What is added to it is encrypted and summed up at once: a part as a
// whole would keep a processor busy for as long as many confirms take, where nodes run on the same machine. One
// goroutine uses it.
type sealing struct {
	name      string
	stored    []byte
	sum       hash.Hash      // of stored
	encrypted io.WriteCloser // writes to stored; nil: it is plain
}

// seal begins an object of a name. It may use the memory of an earlier one.
func (k *Keys) seal(name string, memory []byte) (*sealing, error) {
	s := &sealing{name: name, stored: memory[:0], sum: sha256.New()}
	if k == nil {
		return s, nil
	}
	s.name += encryptedSuffix
	var err error
	if s.encrypted, err = age.Encrypt((*storing)(s), k.to...); err != nil {
		return nil, fmt.Errorf("archive: encrypting %s: %w", name, err)
	}
	return s, nil
}

// add appends content.
func (s *sealing) add(content []byte) error {
	to := io.Writer((*storing)(s))
	if s.encrypted != nil {
		to = s.encrypted
	}
	if _, err := to.Write(content); err != nil {
		return fmt.Errorf("archive: encrypting %s: %w", s.name, err)
	}
	return nil
}

// end completes the object, and describes it.
func (s *sealing) end() (Object, error) {
	if s.encrypted != nil {
		if err := s.encrypted.Close(); err != nil {
			return Object{}, fmt.Errorf("archive: encrypting %s: %w", s.name, err)
		}
	}
	return Object{Name: s.name, Bytes: int64(len(s.stored)), SHA256: hex.EncodeToString(s.sum.Sum(nil))}, nil
}

// storing is the end of a sealing that takes bytes as they are stored.
type storing sealing

// Write never fails.
func (s *storing) Write(b []byte) (int, error) {
	s.stored = append(s.stored, b...)
	return s.sum.Write(b)
}
