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

// scanRecords calls visit for the records from an offset on, up to a limit or the last record; their bytes are valid
// during the call. It returns where the records end, the footer among them.
func scanRecords(f io.ReaderAt, from, limit int64, salt uint32, visit func(at int64, r *record) error) (end int64, footer bool, err error) {
	w := window{f: f, size: limit}
	at := from
	for at+HeadBytes <= limit {
		head, err := w.at(at, HeadBytes)
		if err != nil {
			return at, false, err
		}
		n := recordSize(head, min(limit-at, MaxRecordBytes))
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

// nextRecord returns where the first intact record behind a place without one begins: at the distance of the size
// found there, or else wherever one is found. Checksums are computed over at most budget times the bytes that are
// there.
func nextRecord(f io.ReaderAt, from, limit int64, salt uint32) (next int64, found bool, err error) {
	const budget = 4
	w := window{f: f, size: limit}
	left := budget * (limit - from)
	var buf []byte
	intact := func(at int64) (bool, error) {
		if at+HeadBytes > limit {
			return false, nil
		}
		head, err := w.at(at, HeadBytes)
		if err != nil {
			return false, err
		}
		n := recordSize(head, limit-at)
		if n == 0 || int64(leUint32(head[12:])) > at {
			return false, nil
		}
		if left -= int64(n); left < 0 {
			return false, nil
		}
		if cap(buf) < n {
			buf = make([]byte, n)
		}
		if err := readFull(f, buf[:n], at); err != nil {
			return false, err
		}
		_, ok := parseRecord(buf[:n], salt)
		return ok, nil
	}
	if from+HeadBytes <= limit {
		head, err := w.at(from, HeadBytes)
		if err != nil {
			return 0, false, err
		}
		if n := recordSize(head, limit-from); n > 0 {
			if ok, err := intact(from + int64(n)); ok || err != nil {
				return from + int64(n), ok, err
			}
		}
	}
	for at := from + 1; at+HeadBytes <= limit && left >= 0; at++ {
		if ok, err := intact(at); ok || err != nil {
			return at, ok, err
		}
	}
	return 0, false, nil
}

func leUint32(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// sealedFooter returns the footer to which the trailer at the end of the file points, and where the records end; nil
// if there is no intact one.
func sealedFooter(f vfs.File, size int64, seq, salt uint32) (footer []byte, end int64, err error) {
	at, err := trailerOf(f, size, seq, salt)
	if at == 0 || err != nil {
		return nil, 0, err
	}
	b := make([]byte, size-trailerBytes-at)
	if err := readFull(f, b, at); err != nil {
		return nil, 0, err
	}
	r, ok := parseRecord(b, salt)
	if !ok || r.kind != KindFooter {
		return nil, 0, nil
	}
	return append([]byte{}, r.data...), at, nil
}

// trailerOf returns where the records end according to the trailer at the end of a file, or 0 if there is no intact
// trailer.
func trailerOf(f vfs.File, size int64, seq, salt uint32) (int64, error) {
	if size < headerBytes+HeadBytes+trailerBytes {
		return 0, nil
	}
	b := make([]byte, trailerBytes)
	if err := readFull(f, b, size-trailerBytes); err != nil {
		return 0, err
	}
	at, n, ok := parseTrailer(b, seq, salt)
	if !ok || at < headerBytes || at+n+trailerBytes != size {
		return 0, nil
	}
	return at, nil
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
