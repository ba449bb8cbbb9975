package raftfsm

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// The layouts are described in docs/formats/group-snapshot.md.
const (
	snapshotMagic   = "QSNF"
	snapshotVersion = 2

	snapshotHeadBytes = 64
	sumBytes          = 4

	maxConfigurationBytes = 1 << 20
)

// snapshotHead is the head of a snapshot's file: the configuration follows it, then the
// machine's bytes and the live set, each with a checksum.
type snapshotHead struct {
	group         id.GroupID
	index, term   uint64
	configIndex   uint64
	machineBytes  int64
	liveBytes     int64
	configuration raft.Configuration
}

// append writes the head and its checksum (docs/formats/group-snapshot.md).
func (h *snapshotHead) append(b []byte) []byte {
	config := raft.EncodeConfiguration(h.configuration)
	start := len(b)
	b = append(b, snapshotMagic...)
	b = append(b, snapshotVersion, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.group))
	b = binary.LittleEndian.AppendUint64(b, h.index)
	b = binary.LittleEndian.AppendUint64(b, h.term)
	b = binary.LittleEndian.AppendUint64(b, h.configIndex)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.machineBytes))
	b = binary.LittleEndian.AppendUint64(b, uint64(h.liveBytes))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(config)))
	b = append(b, 0, 0, 0, 0)
	b = append(b, config...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli()))
}

// readSnapshotHead reads a head and leaves the reader at the machine's bytes.
func readSnapshotHead(r io.Reader) (snapshotHead, error) {
	var h snapshotHead
	fixed := make([]byte, snapshotHeadBytes)
	if _, err := io.ReadFull(r, fixed); err != nil {
		return h, corruptf("head: %v", err)
	}
	if string(fixed[:4]) != snapshotMagic {
		return h, corruptf("not a snapshot: begins with %q", fixed[:8])
	}
	n := binary.LittleEndian.Uint32(fixed[56:])
	if n > maxConfigurationBytes {
		return h, corruptf("configuration of %d bytes", n)
	}
	rest := make([]byte, n+sumBytes)
	if _, err := io.ReadFull(r, rest); err != nil {
		return h, corruptf("configuration: %v", err)
	}
	t := castagnoli()
	sum := crc32.Update(crc32.Checksum(fixed, t), t, rest[:n])
	if want := binary.LittleEndian.Uint32(rest[n:]); sum != want {
		return h, corruptf("head has checksum %08x, stored is %08x", sum, want)
	}
	if fixed[4] != snapshotVersion { // the head is whole
		return h, fmt.Errorf("%w: snapshot version %d, known is %d", ErrUnreadable, fixed[4], snapshotVersion)
	}
	h.group = id.GroupID(binary.LittleEndian.Uint64(fixed[8:]))
	h.index = binary.LittleEndian.Uint64(fixed[16:])
	h.term = binary.LittleEndian.Uint64(fixed[24:])
	h.configIndex = binary.LittleEndian.Uint64(fixed[32:])
	h.machineBytes = int64(binary.LittleEndian.Uint64(fixed[40:]))
	h.liveBytes = int64(binary.LittleEndian.Uint64(fixed[48:]))
	if h.machineBytes < 0 || h.liveBytes < 0 {
		return h, corruptf("lengths %d and %d", h.machineBytes, h.liveBytes)
	}
	h.configuration = raft.DecodeConfiguration(rest[:n])
	return h, nil
}

// snapshotFile is a durable snapshot.
type snapshotFile struct {
	snapshotHead
	path    string
	bytes   int64 // of the file
	machine int64 // offset of the machine's bytes
	live    liveSet
}

func (f *snapshotFile) id() string { return snapshotID(f.index, f.term) }

func snapshotID(index, term uint64) string { return fmt.Sprintf("%020d-%d", index, term) }

// meta is what raft knows of the snapshot.
func (f *snapshotFile) meta() *raft.SnapshotMeta {
	return &raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax, ID: f.id(), Index: f.index, Term: f.term,
		Configuration: f.configuration, ConfigurationIndex: f.configIndex, Size: f.bytes,
	}
}

// loadSnapshot reads a file's head and live set; the machine's bytes are read and
// checked when they are restored.
func loadSnapshot(path string) (_ *snapshotFile, err error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }() // read only: nothing can be lost
	stat, err := in.Stat()
	if err != nil {
		return nil, err
	}
	f := &snapshotFile{path: path, bytes: stat.Size()}
	if f.snapshotHead, err = readSnapshotHead(in); err != nil {
		return nil, err
	}
	if f.machine, err = in.Seek(0, io.SeekCurrent); err != nil {
		return nil, err
	}
	left := f.bytes - f.machine - 2*sumBytes
	if f.machineBytes > left || f.liveBytes != left-f.machineBytes {
		return nil, corruptf("file of %d bytes does not hold %d of the machine and %d of the live set",
			f.bytes, f.machineBytes, f.liveBytes)
	}
	if f.live, err = readSummed(io.NewSectionReader(in, f.machine+f.machineBytes+sumBytes, f.liveBytes+sumBytes), f.liveBytes); err != nil {
		return nil, fmt.Errorf("live set: %w", err)
	}
	return f, f.live.check()
}

// readMachine returns the machine's bytes out of the opened file.
func (f *snapshotFile) readMachine(in io.ReaderAt) ([]byte, error) {
	b, err := readSummed(io.NewSectionReader(in, f.machine, f.machineBytes+sumBytes), f.machineBytes)
	if err != nil {
		return nil, fmt.Errorf("machine: %w", err)
	}
	return b, nil
}

// readSummed reads n bytes, of which the caller knows that they are there, and compares
// their checksum.
func readSummed(r io.Reader, n int64) ([]byte, error) {
	b := make([]byte, n+sumBytes)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	sum := crc32.Checksum(b[:n], castagnoli())
	if want := binary.LittleEndian.Uint32(b[n:]); sum != want {
		return nil, corruptf("checksum is %08x, stored is %08x", sum, want)
	}
	return b[:n:n], nil
}

// writeSnapshot writes a whole file and makes it durable under a temporary name. The
// live set is asked for when the machine's bytes have been read and summed.
func writeSnapshot(path string, h snapshotHead, machine io.Reader, live func(machineSum uint32) (liveSet, error)) (err error) {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := out.Close(); err == nil {
			err = closeErr
		}
	}()
	w := bufio.NewWriterSize(out, 256<<10)
	sum := crc32.New(castagnoli())
	if _, err := w.Write(h.append(nil)); err != nil {
		return err
	}
	if _, err := io.CopyN(io.MultiWriter(w, sum), machine, h.machineBytes); err != nil {
		return err
	}
	if _, err := w.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32())); err != nil {
		return err
	}
	set, err := live(sum.Sum32())
	if err != nil {
		return err
	}
	if _, err := w.Write(set); err != nil {
		return err
	}
	if _, err := w.Write(binary.LittleEndian.AppendUint32(nil, crc32.Checksum(set, castagnoli()))); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return out.Sync()
}
