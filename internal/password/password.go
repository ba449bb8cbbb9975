// Package password hashes passwords with argon2id, and checks them against its own hashes and
// RabbitMQ's. It keeps no password. All functions may be called concurrently; a hash or check takes
// some milliseconds and MemoryKiB of memory.
package password

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
)

// Algorithm names how a hash was made. RabbitMQ's have the names of its definitions.
type Algorithm string

// The supported algorithms; new hashes use Argon2id.
const (
	Argon2id     Algorithm = "argon2id"
	RabbitSHA256 Algorithm = "rabbit_password_hashing_sha256"
	RabbitSHA512 Algorithm = "rabbit_password_hashing_sha512"
)

// Cost of new hashes: the second recommendation of RFC 9106 with less memory, because many clients
// may log in at once. Each hash has its own cost in it.
const (
	// MemoryKiB is the memory that one hash takes, in KiB.
	MemoryKiB = 19 << 10
	passes    = 2
	threads   = 1
	saltBytes = 16
	sumBytes  = 32
)

// Bounds of the cost that a stored hash may ask for: a hash may come from forged definitions.
const (
	maxMemoryKiB = 256 << 10
	maxPasses    = 16
	maxThreads   = 16
)

// rabbitSaltBytes is the length of the salt in front of RabbitMQ's sum.
const rabbitSaltBytes = 4

// Hash hashes a password with a new salt.
func Hash(password string) (hash string, a Algorithm, err error) {
	salt := make([]byte, saltBytes)
	if _, err := rand.Read(salt); err != nil {
		return "", "", fmt.Errorf("password: make a random salt: %w", err)
	}
	return salted(password, salt), Argon2id, nil
}

// salted returns a hash with the current cost, in the PHC string format.
func salted(password string, salt []byte) (hash string) {
	sum := argon2.IDKey([]byte(password), salt, passes, MemoryKiB, threads, sumBytes)
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s",
		argon2.Version, MemoryKiB, passes, threads, encode(salt), encode(sum))
}

// Current reports whether a hash has the cost of new ones: it was made with argon2id and the same
// parameters.
func Current(hash string, a Algorithm) bool {
	h, err := parseArgon2id(hash)
	return a == Argon2id && err == nil && h.memoryKiB == MemoryKiB && h.passes == passes && h.threads == threads
}

// Upgrade hashes a password that matches another hash. It derives the salt from that hash, so that
// UpgradeOf shows where the new hash comes from. Guessing a password takes the same work for
// both.
func Upgrade(password, from string) (hash string, a Algorithm) {
	sum := sha256.Sum256([]byte(from))
	return salted(password, sum[:saltBytes]), Argon2id
}

// UpgradeOf reports whether Upgrade made a hash from another one, of which sum is the SHA-256.
func UpgradeOf(hash string, sum []byte) bool {
	h, err := parseArgon2id(hash)
	return err == nil && len(sum) == sha256.Size && subtle.ConstantTimeCompare(h.salt, sum[:saltBytes]) == 1
}

// Matches reports whether a password is the hashed one, in a time that does not depend on where it
// differs. An empty hash matches nothing. An error means that the hash is malformed.
func Matches(password, hash string, a Algorithm) (bool, error) {
	if hash == "" {
		return false, nil
	}
	switch a {
	case Argon2id:
		return matchesArgon2id(password, hash)
	case RabbitSHA256:
		return matchesRabbit(hash, sha256.Size, func(salted []byte) []byte { s := sha256.Sum256(salted); return s[:] }, password)
	case RabbitSHA512:
		return matchesRabbit(hash, sha512.Size, func(salted []byte) []byte { s := sha512.Sum512(salted); return s[:] }, password)
	}
	return false, unknown(a)
}

// Check returns why a hash must not be stored: no password could ever match it.
func Check(hash string, a Algorithm) error {
	if hash == "" && a == "" {
		return nil
	}
	switch a {
	case Argon2id:
		_, err := parseArgon2id(hash)
		return err
	case RabbitSHA256:
		_, _, err := splitRabbit(hash, sha256.Size)
		return err
	case RabbitSHA512:
		_, _, err := splitRabbit(hash, sha512.Size)
		return err
	}
	return unknown(a)
}

func unknown(a Algorithm) error {
	return fmt.Errorf("password: hashing algorithm %q is unknown; want %s, %s or %s", a, Argon2id, RabbitSHA256, RabbitSHA512)
}

// argon2idHash is a parsed hash with the cost that it asks for.
type argon2idHash struct {
	memoryKiB, passes uint32
	threads           uint8
	salt, sum         []byte
}

// parseArgon2id parses the PHC string format. It refuses costs above the bounds, because checking
// such a hash could exhaust the node.
func parseArgon2id(hash string) (h argon2idHash, err error) {
	malformed := errors.New("password: the hash is not of the form $argon2id$v=19$m=…,t=…,p=…$salt$sum")
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return h, malformed
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &h.memoryKiB, &h.passes, &h.threads); err != nil {
		return h, malformed
	}
	if h.salt, err = base64.RawStdEncoding.DecodeString(parts[4]); err != nil {
		return h, malformed
	}
	if h.sum, err = base64.RawStdEncoding.DecodeString(parts[5]); err != nil || len(h.sum) == 0 {
		return h, malformed
	}
	if h.memoryKiB > maxMemoryKiB || h.passes == 0 || h.passes > maxPasses || h.threads == 0 || h.threads > maxThreads {
		return h, fmt.Errorf("password: the hash asks for %d KiB, %d passes and %d threads; the limits are %d, %d and %d",
			h.memoryKiB, h.passes, h.threads, maxMemoryKiB, maxPasses, maxThreads)
	}
	return h, nil
}

// matchesArgon2id computes the sum with the hash's own cost and compares in constant time.
func matchesArgon2id(password, hash string) (bool, error) {
	h, err := parseArgon2id(hash)
	if err != nil {
		return false, err
	}
	sum := argon2.IDKey([]byte(password), h.salt, h.passes, h.memoryKiB, h.threads, uint32(len(h.sum)))
	return subtle.ConstantTimeCompare(sum, h.sum) == 1, nil
}

// splitRabbit splits a hash of RabbitMQ into its salt and a sum of size bytes.
func splitRabbit(hash string, size int) (salt, sum []byte, err error) {
	b, err := base64.StdEncoding.DecodeString(hash)
	if err != nil || len(b) != rabbitSaltBytes+size {
		return nil, nil, fmt.Errorf("password: the hash is not base64 of %d bytes of salt and %d of sum", rabbitSaltBytes, size)
	}
	return b[:rabbitSaltBytes], b[rabbitSaltBytes:], nil
}

// matchesRabbit computes RabbitMQ's sum, of the salt followed by the password, and compares in
// constant time.
func matchesRabbit(hash string, size int, sum func([]byte) []byte, password string) (bool, error) {
	salt, want, err := splitRabbit(hash, size)
	if err != nil {
		return false, err
	}
	salted := append(append(make([]byte, 0, len(salt)+len(password)), salt...), password...)
	return subtle.ConstantTimeCompare(sum(salted), want) == 1, nil
}
