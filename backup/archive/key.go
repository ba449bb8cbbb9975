package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"filippo.io/age"
)

// encryptedSuffix ends the names of encrypted objects.
const encryptedSuffix = ".age"

// Keys encrypt or decrypt objects; nil: objects are plain.
type Keys struct {
	to   []age.Recipient
	from []age.Identity
}

// ReadKeys reads a file of age identities or recipients. With recipients alone, backups can be written and not read.
func ReadKeys(path string) (*Keys, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("archive: key file: %w", err)
	}
	ids, err := age.ParseIdentities(bytes.NewReader(b))
	if err == nil {
		k := &Keys{from: ids}
		for _, x := range ids {
			own, ok := x.(interface{ Recipient() *age.X25519Recipient })
			if !ok {
				return nil, fmt.Errorf("archive: key file %s: only keys that begin with AGE-SECRET-KEY-1 are known", path)
			}
			k.to = append(k.to, own.Recipient())
		}
		return k, nil
	}
	to, err2 := age.ParseRecipients(bytes.NewReader(b))
	if err2 != nil {
		return nil, fmt.Errorf("archive: key file %s: %w", path, err)
	}
	return &Keys{to: to}, nil
}

// NewKey writes a new key to a file that must not exist, and returns its public half, which is enough to write backups.
func NewKey(path string) (recipient string, err error) {
	x, err := age.GenerateX25519Identity()
	if err != nil {
		return "", fmt.Errorf("archive: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return "", fmt.Errorf("archive: %w", err)
	}
	_, err = fmt.Fprintf(f, "# public key: %s\n%s\n", x.Recipient(), x)
	return x.Recipient().String(), errors.Join(err, f.Sync(), f.Close())
}

// open returns the content of a stored object.
func (k *Keys) open(name string, stored []byte) ([]byte, error) {
	if k == nil {
		return stored, nil
	}
	r, err := age.Decrypt(bytes.NewReader(stored), k.from...)
	if err != nil {
		return nil, fmt.Errorf("archive: decrypting %s: %w", name, err)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("archive: decrypting %s: %w", name, err)
	}
	return content, nil
}
