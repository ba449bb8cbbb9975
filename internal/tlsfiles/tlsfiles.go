// Package tlsfiles keeps a certificate, its key and its authorities up to date with their files.
// Other programs replace the files: by renaming, by writing, or by moving a symbolic link as
// Kubernetes does for secrets.
//
// The package reads the files again every few seconds and compares their bytes. That needs no
// watches, works on every file system, and three small files cost nothing.
package tlsfiles

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

const (
	defaultEvery = 10 * time.Second
	// expiryNotice is how long before a certificate expires the log warns of it.
	expiryNotice = 14 * 24 * time.Hour
	// maxFileBytes bounds a file. It has room for many certificates, and bounds the harm of a wrong
	// path.
	maxFileBytes = 4 << 20
)

// Config names the files.
type Config struct {
	// Setting is the common beginning of the setting names in errors: tls.peer for tls.peer.cert.
	Setting string
	Cert    string // PEM, the certificate first, then its intermediates
	Key     string // PEM
	CA      string // PEM, one or many authorities; "": none
	// Check may refuse material; nil: all material is accepted.
	Check  func(cert tls.Certificate, authorities *x509.CertPool) error
	Every  time.Duration // time between two reads of the files; 0: 10 s
	Logger *slog.Logger  // nil: slog.DiscardHandler
}

// Files is the material of the files. All methods may be called concurrently.
type Files struct {
	cfg Config

	mu          sync.Mutex // guards what follows
	certificate tls.Certificate
	authorities *x509.CertPool
	text        texts // the bytes that the material was made of
}

// texts are the bytes of the files, in the order cert, key, CA.
type texts [3][]byte

// equal reports whether no file has changed.
func (t texts) equal(o texts) bool {
	for i := range t {
		if !bytes.Equal(t[i], o[i]) {
			return false
		}
	}
	return true
}

// Open reads the files. It returns all faults at once, each with the name of its setting. No fault
// shows the content of a key.
func Open(c Config) (*Files, error) {
	if c.Every == 0 {
		c.Every = defaultEvery
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	f := &Files{cfg: c}
	text, err := f.read()
	if err != nil {
		return nil, err
	}
	return f, f.apply(text)
}

// Current returns the current material, which the caller must not change. Without CA the pool is
// nil.
func (f *Files) Current() (tls.Certificate, *x509.CertPool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.certificate, f.authorities
}

// Watch reads changed files until done is closed. If it cannot use them, it keeps the old material,
// and logs that once for each content.
func (f *Files) Watch(done <-chan struct{}) {
	tick := time.NewTicker(f.cfg.Every)
	defer tick.Stop()
	var w watch
	for {
		f.look(&w)
		select {
		case <-tick.C:
		case <-done:
			return
		}
	}
}

// watch is the state of Watch's loop.
type watch struct {
	pending texts  // seen once: used or refused if the next read finds the same
	logged  string // the last fault that was logged
	warned  string // the certificate whose end was logged, and how
}

// look reads the files and uses them if they changed. Another program may have replaced only some
// of them so far. Files that do not fit together are therefore a fault only if the next read finds
// the same.
func (f *Files) look(w *watch) {
	text, err := f.read()
	f.mu.Lock()
	same := err == nil && text.equal(f.text)
	f.mu.Unlock()
	if !same && err == nil {
		err = f.applyNew(text)
	}
	switch {
	case err == nil:
		w.logged = ""
	case !text.equal(w.pending):
	case w.logged != err.Error():
		w.logged = err.Error()
		f.cfg.Logger.Error("cannot use the changed TLS files; the old ones stay in force", "setting", f.cfg.Setting, "error", err)
	}
	w.pending = text
	f.warnOfEnd(w)
}

// Reload uses changed files at once. If it cannot use them, it keeps the old material.
func (f *Files) Reload() error {
	text, err := f.read()
	if err != nil {
		return err
	}
	f.mu.Lock()
	same := text.equal(f.text)
	f.mu.Unlock()
	if same {
		return nil
	}
	return f.applyNew(text)
}

// applyNew uses new files and logs when the certificate expires.
func (f *Files) applyNew(text texts) error {
	if err := f.apply(text); err != nil {
		return err
	}
	certificate, _ := f.Current()
	f.cfg.Logger.Info("new TLS files are in use", "setting", f.cfg.Setting, "not_after", certificate.Leaf.NotAfter)
	return nil
}

// warnOfEnd logs once that the certificate expires soon, and once that it has expired.
func (f *Files) warnOfEnd(w *watch) {
	certificate, _ := f.Current()
	end := certificate.Leaf.NotAfter
	left := time.Until(end)
	if left > expiryNotice {
		return
	}
	notice := fmt.Sprintf("%s %v", certificate.Leaf.SerialNumber, left <= 0)
	if w.warned == notice {
		return
	}
	w.warned = notice
	if left <= 0 {
		f.cfg.Logger.Error("certificate has expired: write a new one to the file", "setting", f.cfg.Setting+".cert", "not_after", end)
		return
	}
	f.cfg.Logger.Warn("certificate expires soon: write a new one to the file", "setting", f.cfg.Setting+".cert", "not_after", end)
}

// read reads all files and returns all faults. The authorities are optional.
func (f *Files) read() (texts, error) {
	var text texts
	var errs []error
	for i, file := range []struct{ key, name string }{{"cert", f.cfg.Cert}, {"key", f.cfg.Key}, {"ca", f.cfg.CA}} {
		if file.name == "" && file.key == "ca" {
			continue
		}
		var err error
		if text[i], err = readFile(file.name); err != nil {
			errs = append(errs, fmt.Errorf("%s.%s: %w", f.cfg.Setting, file.key, err))
		}
	}
	return text, errors.Join(errs...)
}

// readFile bounds the size, because a wrong path could name a file of any size.
func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if size := info.Size(); size > maxFileBytes {
		return nil, fmt.Errorf("%s has %d bytes; the limit is %d: name a PEM file", name, size, maxFileBytes)
	}
	return os.ReadFile(name)
}

// apply makes the material from the files' bytes if they are valid.
func (f *Files) apply(text texts) error {
	var errs []error
	certificate, err := tls.X509KeyPair(text[0], text[1])
	if err != nil {
		errs = append(errs, fmt.Errorf("%s.cert %s and %s.key %s: %w: put a PEM certificate and its unencrypted PEM key there",
			f.cfg.Setting, f.cfg.Cert, f.cfg.Setting, f.cfg.Key, err))
	}
	var authorities *x509.CertPool
	if f.cfg.CA != "" {
		if authorities, err = parseAuthorities(text[2]); err != nil {
			errs = append(errs, fmt.Errorf("%s.ca %s: %w", f.cfg.Setting, f.cfg.CA, err))
		}
	}
	if len(errs) == 0 && f.cfg.Check != nil {
		if err := f.cfg.Check(certificate, authorities); err != nil {
			errs = append(errs, fmt.Errorf("%s.cert %s: %w", f.cfg.Setting, f.cfg.Cert, err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.certificate, f.authorities, f.text = certificate, authorities, text
	return nil
}

// parseAuthorities reads every certificate of the text. A certificate that it cannot read is an
// error: with a shorter list the node would refuse peers later.
func parseAuthorities(text []byte) (*x509.CertPool, error) {
	pool, found := x509.NewCertPool(), false
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("contains a certificate that cannot be read: %w", err)
		}
		pool.AddCert(cert)
		found = true
	}
	if !found {
		return nil, errors.New("contains no PEM certificate: write the authorities' certificates to it")
	}
	return pool, nil
}
