package raftfsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
)

// A bolt file has checksums on its two metas alone, and bolt ends the process, or goes back to
// the transaction before the last one, over much that may be wrong. So each file is read once
// before bolt gets it: the tree of pages, and all keys and values.

// Layout of a bolt file, as of bbolt's internal/common, on a little endian machine.
const (
	boltMagic    = 0xED0CDAED
	boltVersion  = 2
	boltMetas    = 2
	boltPageHead = 16
	boltElement  = 16
	boltMeta     = 64 // bytes of a meta
	boltMetaSum  = 56 // of which are under the checksum
	boltBranch   = 0x01
	boltLeaf     = 0x02
	boltBucket   = 0x01 // flag of an element
	boltMinPage  = 1 << 10
	boltMaxPage  = 1 << 16
	boltMaxDepth = 64
)

// boltFile is a file being checked.
type boltFile struct {
	f     *os.File
	size  int64  // of a page
	pages uint64 // below which all are
	root  uint64
	seen  map[uint64]struct{}
	visit func(bucket, key, value []byte) error
}

// checkBolt reads a bolt file and calls visit for all keys and values in order; they are valid
// during the call. A file that is not there, or was never written, is sound. Its error is
// errCorrupt if the file is not what bolt has written.
func checkBolt(path string, visit func(bucket, key, value []byte) error) (err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	stat, err := f.Stat()
	if err != nil || stat.Size() == 0 {
		return err
	}
	b := boltFile{f: f, seen: map[uint64]struct{}{}, visit: visit}
	if err := b.metas(); err != nil {
		return err
	}
	return b.page(b.root, nil, nil, nil, 0)
}

// read takes a file that ends too early for damage.
func (b *boltFile) read(at int64, n int) ([]byte, error) {
	p := make([]byte, n)
	if _, err := b.f.ReadAt(p, at); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, corruptf("the file ends before %d", at+int64(n))
		}
		return nil, err
	}
	return p, nil
}

// metas reads both metas. They are written in turn, so that one that is damaged may be the
// newer: the older describes a state in which what was acknowledged since is missing.
func (b *boltFile) metas() error {
	b.size = boltMinPage
	first, err := b.read(boltPageHead, boltMeta)
	if err != nil {
		return err
	}
	if err := checkMeta(first); err != nil {
		return corruptf("meta 0: %v", err)
	}
	b.size = int64(binary.LittleEndian.Uint32(first[8:]))
	if b.size < boltMinPage || b.size > boltMaxPage {
		return corruptf("pages of %d bytes", b.size)
	}
	second, err := b.read(b.size+boltPageHead, boltMeta)
	if err != nil {
		return err
	}
	if err := checkMeta(second); err != nil {
		return corruptf("meta 1: %v", err)
	}
	txid := func(m []byte) uint64 { return binary.LittleEndian.Uint64(m[48:]) }
	newest := first
	if txid(second) > txid(first) {
		newest = second
	}
	b.root, b.pages = binary.LittleEndian.Uint64(newest[16:]), binary.LittleEndian.Uint64(newest[40:])
	return nil
}

// checkMeta checks a meta page before bolt maps the file: bolt would follow what it says.
func checkMeta(m []byte) error {
	sum := fnv.New64a()
	_, _ = sum.Write(m[:boltMetaSum])
	switch {
	case sum.Sum64() != binary.LittleEndian.Uint64(m[boltMetaSum:]):
		return errors.New("its checksum is wrong")
	case binary.LittleEndian.Uint32(m) != boltMagic || binary.LittleEndian.Uint32(m[4:]) != boltVersion:
		return errors.New("it is not of a bolt file of version 2")
	}
	return nil
}

// page checks a page and those below it, whose keys are from low on and below high.
func (b *boltFile) page(number uint64, bucket, low, high []byte, depth int) error {
	if number < boltMetas || number >= b.pages || depth > boltMaxDepth {
		return corruptf("page %d of %d at depth %d", number, b.pages, depth)
	}
	head, err := b.read(int64(number)*b.size, boltPageHead)
	if err != nil {
		return err
	}
	more := uint64(binary.LittleEndian.Uint32(head[12:]))
	if binary.LittleEndian.Uint64(head) != number || more >= b.pages-number {
		return corruptf("page %d says that it is %d, with %d more", number, binary.LittleEndian.Uint64(head), more)
	}
	for n := number; n <= number+more; n++ {
		if _, twice := b.seen[n]; twice {
			return corruptf("page %d is used twice", n)
		}
		b.seen[n] = struct{}{}
	}
	p, err := b.read(int64(number)*b.size, int(b.size*int64(more+1)))
	if err != nil {
		return err
	}
	used, err := b.elements(p, bucket, low, high, depth)
	if err == nil && int64(more) > int64(used)/b.size {
		err = corruptf("%d bytes on %d pages", used, more+1)
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", number, err)
	}
	return nil
}

// boltItem is an element of a page.
type boltItem struct {
	flags      uint32
	child      uint64 // of a branch
	key, value []byte
	end        int
}

// readItem reads an element and checks that its bytes are on the page.
func readItem(p []byte, i int, leaf bool) (boltItem, error) {
	at := boltPageHead + i*boltElement
	e := p[at : at+boltElement]
	var it boltItem
	var pos, key, value uint64
	if leaf {
		it.flags = binary.LittleEndian.Uint32(e)
		pos, key, value = uint64(binary.LittleEndian.Uint32(e[4:])), uint64(binary.LittleEndian.Uint32(e[8:])), uint64(binary.LittleEndian.Uint32(e[12:]))
	} else {
		pos, key = uint64(binary.LittleEndian.Uint32(e)), uint64(binary.LittleEndian.Uint32(e[4:]))
		it.child = binary.LittleEndian.Uint64(e[8:])
	}
	from := uint64(at) + pos
	if from+key+value > uint64(len(p)) || it.flags&^boltBucket != 0 {
		return it, corruptf("element %d has flags %#x and %d and %d bytes at %d", i, it.flags, key, value, from)
	}
	it.key, it.value, it.end = p[from:from+key], p[from+key:from+key+value], int(from+key+value)
	return it, nil
}

// elements checks the elements of a page, whose head included p is. It returns how many bytes of it are used.
func (b *boltFile) elements(p, bucket, low, high []byte, depth int) (used int, err error) {
	flags, count := binary.LittleEndian.Uint16(p[8:]), int(binary.LittleEndian.Uint16(p[10:]))
	used = boltPageHead + count*boltElement
	if flags != boltBranch && flags != boltLeaf || used > len(p) || flags == boltBranch && count == 0 {
		return 0, corruptf("flags %#x and %d elements in %d bytes", flags, count, len(p))
	}
	items := make([]boltItem, count)
	for i := range items {
		if items[i], err = readItem(p, i, flags == boltLeaf); err != nil {
			return 0, err
		}
		used = max(used, items[i].end)
		if i > 0 && bytes.Compare(items[i-1].key, items[i].key) >= 0 || bytes.Compare(items[i].key, low) < 0 ||
			high != nil && bytes.Compare(items[i].key, high) >= 0 {
			return 0, corruptf("element %d is out of order", i)
		}
	}
	for i, it := range items {
		switch {
		case flags == boltBranch:
			next := high
			if i+1 < count {
				next = items[i+1].key
			}
			err = b.page(it.child, bucket, it.key, next, depth+1)
		case it.flags == boltBucket:
			err = b.bucket(bucket, it)
		case bucket == nil:
			err = corruptf("a value outside of the buckets")
		default:
			err = b.visit(bucket, it.key, it.value)
		}
		if err != nil {
			return 0, err
		}
	}
	return used, nil
}

// bucket checks what a bucket has, on pages of its own or in its element.
func (b *boltFile) bucket(within []byte, it boltItem) error {
	if within != nil || len(it.value) < boltPageHead {
		return corruptf("a bucket of %d bytes in bucket %q", len(it.value), within)
	}
	if root := binary.LittleEndian.Uint64(it.value); root != 0 {
		return b.page(root, it.key, nil, nil, 0)
	}
	inline := it.value[boltPageHead:]
	if len(inline) < boltPageHead {
		return corruptf("a bucket of %d bytes", len(inline))
	}
	_, err := b.elements(inline, it.key, nil, nil, 0)
	return err
}
