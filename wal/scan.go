package wal

import (
	"errors"
	"fmt"
	"io"

	"github.com/quorate/quorate/wal/vfs"
)

// scanBytes is read at a time.
const scanBytes = 1 << 20

// readFull reads exactly what fits into p.
func readFull(f io.ReaderAt, p []byte, off int64) error {
	n, err := f.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// window is a buffer that moves along a file.
type window struct {
	f    io.ReaderAt
	size int64 // of the file
	off  int64 // of buf in the file
	buf  []byte
}

// at returns n bytes at an offset; they must be within the file.
func (w *window) at(off int64, n int) ([]byte, error) {
	if lo := off - w.off; lo >= 0 && lo+int64(n) <= int64(len(w.buf)) {
		return w.buf[lo : lo+int64(n)], nil
	}
	want := int(min(int64(max(n, scanBytes)), w.size-off))
	if cap(w.buf) < want {
		w.buf = make([]byte, want)
	}
	w.buf, w.off = w.buf[:want], off
	if err := readFull(w.f, w.buf, off); err != nil {
		w.buf = w.buf[:0]
		return nil, err
	}
	return w.buf[:n], nil
}

// scanRecords calls visit for the records from off on until there is none; their bytes
// are valid during the call. It returns where the records end, the footer among them.
func scanRecords(f io.ReaderAt, size int64, salt uint32, visit func(at int64, r *record) error) (end int64, footer bool, err error) {
	w := window{f: f, size: size}
	at := int64(headerBytes)
	for at+HeadBytes <= size {
		head, err := w.at(at, HeadBytes)
		if err != nil {
			return at, false, err
		}
		n := recordSize(head, min(size-at, MaxRecordBytes))
		if n == 0 {
			return at, false, nil
		}
		b, err := w.at(at, n)
		if err != nil {
			return at, false, err
		}
		r, ok := parseRecord(b, salt)
		if !ok {
			return at, false, nil
		}
		if r.kind == KindFooter {
			return at, true, nil
		}
		if err := visit(at, &r); err != nil {
			return at, false, err
		}
		at += int64(n)
	}
	return at, false, nil
}

// provesDamage looks behind the place where the records of an unsealed segment end for a
// record that was appended when that place was durable: then the end is no torn write.
// Checksums are computed over at most budget times the bytes that are there.
func provesDamage(f io.ReaderAt, size int64, salt uint32, end int64) (bool, error) {
	const budget = 4
	w := window{f: f, size: size}
	left := budget * (size - end)
	for at := end + 1; at+HeadBytes <= size; at++ {
		head, err := w.at(at, HeadBytes)
		if err != nil {
			return false, err
		}
		n := recordSize(head, size-at)
		if n == 0 || int64(leUint32(head[12:])) <= end || int64(leUint32(head[12:])) > at {
			continue
		}
		if left -= int64(n); left < 0 {
			return false, nil
		}
		b := make([]byte, n)
		if err := readFull(f, b, at); err != nil {
			return false, err
		}
		if _, ok := parseRecord(b, salt); ok {
			return true, nil
		}
	}
	return false, nil
}

func leUint32(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// sealedFooter returns the footer that the trailer at the end of the file names and where
// the records end; nil if there is none that is intact.
func sealedFooter(f vfs.File, size int64, seq, salt uint32) (footer []byte, end int64, err error) {
	if size < headerBytes+HeadBytes+trailerBytes {
		return nil, 0, nil
	}
	b := make([]byte, trailerBytes)
	if err := readFull(f, b, size-trailerBytes); err != nil {
		return nil, 0, err
	}
	at, n, ok := parseTrailer(b, seq, salt)
	if !ok || at < headerBytes || at+n+trailerBytes != size {
		return nil, 0, nil
	}
	b = make([]byte, n)
	if err := readFull(f, b, at); err != nil {
		return nil, 0, err
	}
	r, ok := parseRecord(b, salt)
	if !ok || r.kind != KindFooter {
		return nil, 0, nil
	}
	return append([]byte{}, r.data...), at, nil
}

// readFooter reads the footer of a sealed segment.
func readFooter(s *segment) ([]byte, error) {
	footer, _, err := sealedFooter(s.file, s.size, s.seq, s.salt)
	if err == nil && footer == nil {
		err = errors.New("its footer is damaged")
	}
	return footer, err
}

// readHeader reads a segment's header and checks that it belongs to the name.
func readHeader(f vfs.File, seq uint32) (secret uint64, err error) {
	b := make([]byte, headerBytes)
	if err := readFull(f, b, 0); err != nil {
		return 0, err
	}
	got, secret, err := parseHeader(b)
	if err == nil && got != seq {
		err = fmt.Errorf("the header is that of segment %s", segmentName(got))
	}
	return secret, err
}
