package workload

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/quorate/quorate/chaos/history"
)

// nameBytes is the size of a message's name in its body: publisher, id and their checksum.
const nameBytes = 16

// EncodeID returns a body of this size, at least 16 bytes, that begins with the message's name.
func EncodeID(m history.Message, size int) []byte {
	b := make([]byte, max(size, nameBytes))
	binary.BigEndian.PutUint32(b, uint32(m.Publisher))
	binary.BigEndian.PutUint64(b[4:], m.ID)
	binary.BigEndian.PutUint32(b[12:], crc32.ChecksumIEEE(b[:12]))
	return b
}

// DecodeID returns the name of a message whose body EncodeID made. The error says what no
// publisher can have sent.
func DecodeID(body []byte) (history.Message, error) {
	if len(body) < nameBytes {
		return history.Message{}, fmt.Errorf("workload: a body of %d bytes is too short for a message's name of %d", len(body), nameBytes)
	}
	if sum := crc32.ChecksumIEEE(body[:12]); sum != binary.BigEndian.Uint32(body[12:]) {
		return history.Message{}, fmt.Errorf("workload: the body's name has another checksum: %x", body[:nameBytes])
	}
	return history.Message{Publisher: int(binary.BigEndian.Uint32(body)), ID: binary.BigEndian.Uint64(body[4:])}, nil
}
