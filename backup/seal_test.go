package backup

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// sealed gives bytes the length and the checksum that a block needs, so that a fuzzer reaches what is inside.
func sealed(b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) >= headBytes {
		binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-headBytes))
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli()))
}
