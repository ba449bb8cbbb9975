package workload

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/quorate/quorate/chaos/history"
)

// nameBytes is the size of a message's name in its body: publisher, id and the checksum of the
// whole body but itself.
const nameBytes = 16

// EncodeID returns a body of this size, at least 16 bytes, that begins with the message's name.
// What follows depends on the name, so that a body that was cut, mixed with another or changed is
// found out.
func EncodeID(m history.Message, size int) []byte {
	b := make([]byte, max(size, nameBytes))
	binary.BigEndian.PutUint32(b, uint32(m.Publisher))
	binary.BigEndian.PutUint64(b[4:], m.ID)
	x := uint64(m.Publisher)<<32 ^ m.ID
	rest := b[nameBytes:]
	for ; len(rest) >= 8; rest = rest[8:] {
		x = x*6364136223846793005 + 1442695040888963407 // Knuth, MMIX: it has no structure that compresses
		binary.LittleEndian.PutUint64(rest, x)
	}
	for i := range rest {
		rest[i] = byte(x >> (8 * i))
	}
	binary.BigEndian.PutUint32(b[12:], checksum(b))
	return b
}

// checksum is that of a body without the four bytes that hold it.
func checksum(b []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE(b[:12]), crc32.IEEETable, b[nameBytes:])
}

// DecodeID returns the name of a message whose body EncodeID made. The error is why no publisher can have sent it.
func DecodeID(body []byte) (history.Message, error) {
	if len(body) < nameBytes {
		return history.Message{}, fmt.Errorf("workload: a body of %d bytes is too short for a message's name of %d", len(body), nameBytes)
	}
	if sum := checksum(body); sum != binary.BigEndian.Uint32(body[12:]) {
		return history.Message{}, fmt.Errorf("workload: a body of %d bytes has another checksum: it begins with %x", len(body), body[:nameBytes])
	}
	return history.Message{Publisher: int(binary.BigEndian.Uint32(body)), ID: binary.BigEndian.Uint64(body[4:])}, nil
}
