package frame

import (
	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/quorate/quorate/internal/grpcmem"
)

// writer writes a message. Large data is sent from where it is.
type writer struct{ *grpcmem.Writer }

// data writes a field. It leaves out what is empty, as package proto does.
func (w writer) data(number protowire.Number, data []byte) {
	if len(data) > 0 {
		w.Data(number, data)
	}
}

// Sizes and bytes of AppendEntries and its answer, fields in the order of their numbers,
// zero values left out, as package proto writes them.

// uintSize is 0 for 0, which is not written.
func uintSize(number protowire.Number, v uint64) int {
	if v == 0 {
		return 0
	}
	return protowire.SizeTag(number) + protowire.SizeVarint(v)
}

// boolSize is 0 for false, which is not written.
func boolSize(v bool) int {
	if v {
		return 2
	}
	return 0
}

// bytesSize is the size of a field of n bytes that is there even if n is 0.
func bytesSize(number protowire.Number, n int) int {
	return protowire.SizeTag(number) + protowire.SizeBytes(n)
}

// dataSize is 0 for no bytes, which are not written.
func dataSize(number protowire.Number, b []byte) int {
	if len(b) == 0 {
		return 0
	}
	return bytesSize(number, len(b))
}

// appendUint leaves 0 out, as package proto does.
func appendUint(b []byte, number protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	b = protowire.AppendTag(b, number, protowire.VarintType)
	return protowire.AppendVarint(b, v)
}

// appendBool leaves false out, as package proto does.
func appendBool(b []byte, number protowire.Number, v bool) []byte {
	if !v {
		return b
	}
	return appendUint(b, number, 1)
}

// appendData leaves out what is empty, as package proto does.
func appendData(b []byte, number protowire.Number, data []byte) []byte {
	if len(data) == 0 {
		return b
	}
	b = protowire.AppendTag(b, number, protowire.BytesType)
	return protowire.AppendBytes(b, data)
}

// appendLength begins a field of n bytes.
func appendLength(b []byte, number protowire.Number, n int) []byte {
	b = protowire.AppendTag(b, number, protowire.BytesType)
	return protowire.AppendVarint(b, uint64(n))
}

func sizeHeader(h *raft.RPCHeader) int {
	return uintSize(1, uint64(int32(h.ProtocolVersion))) + dataSize(2, h.ID) + dataSize(3, h.Addr)
}

// writeHeader is field 1 of all calls and answers of raft. It is there even if it is empty.
func writeHeader(b []byte, h *raft.RPCHeader) []byte {
	b = appendLength(b, 1, sizeHeader(h))
	b = appendUint(b, 1, uint64(int32(h.ProtocolVersion)))
	b = appendData(b, 2, h.ID)
	return appendData(b, 3, h.Addr)
}

func sizeEntry(l *raft.Log) int {
	return uintSize(1, l.Index) + uintSize(2, l.Term) + uintSize(3, uint64(l.Type)) + dataSize(4, l.Data) + dataSize(5, l.Extensions)
}

// sizeAppend must count what writeAppend writes, field by field.
func sizeAppend(r *raft.AppendEntriesRequest) int {
	n := bytesSize(1, sizeHeader(&r.RPCHeader)) + uintSize(2, r.Term) + uintSize(3, r.PrevLogEntry) + uintSize(4, r.PrevLogTerm)
	for _, l := range r.Entries {
		n += bytesSize(5, sizeEntry(l))
	}
	return n + uintSize(6, r.LeaderCommitIndex) + dataSize(7, r.Leader) //nolint:staticcheck // older members read it
}

// appendRequest must write what sizeAppend counts, in the order of the fields' numbers.
func (w writer) appendRequest(r *raft.AppendEntriesRequest) {
	w.B = writeHeader(w.B, &r.RPCHeader)
	w.B = appendUint(w.B, 2, r.Term)
	w.B = appendUint(w.B, 3, r.PrevLogEntry)
	w.B = appendUint(w.B, 4, r.PrevLogTerm)
	for _, l := range r.Entries {
		w.B = appendLength(w.B, 5, sizeEntry(l))
		w.B = appendUint(w.B, 1, l.Index)
		w.B = appendUint(w.B, 2, l.Term)
		w.B = appendUint(w.B, 3, uint64(l.Type))
		w.data(4, l.Data)
		w.data(5, l.Extensions)
	}
	w.B = appendUint(w.B, 6, r.LeaderCommitIndex)
	w.B = appendData(w.B, 7, r.Leader) //nolint:staticcheck // older members read it
}

func sizeCall(c *AppendCall) int {
	return uintSize(fieldGroup, c.Group) + uintSize(fieldCall, c.Request) + bytesSize(fieldCallAppend, c.size)
}

// call relies on the size that Measure has put into c.
func (w writer) call(c *AppendCall) {
	w.B = appendUint(w.B, fieldGroup, c.Group)
	w.B = appendUint(w.B, fieldCall, c.Request)
	w.B = appendLength(w.B, fieldCallAppend, c.size)
	w.appendRequest(&c.Args)
}

func sizeResponse(r *raft.AppendEntriesResponse) int {
	return bytesSize(1, sizeHeader(&r.RPCHeader)) + uintSize(2, r.Term) + uintSize(3, r.LastLog) +
		boolSize(r.Success) + boolSize(r.NoRetryBackoff)
}

func sizeAnswer(a *AppendAnswer) int {
	return uintSize(fieldAnswer, a.Request) + bytesSize(fieldAnsAppend, sizeResponse(&a.Response))
}

// writeAnswer writes an answer without an error; package proto writes those with one.
func writeAnswer(b []byte, a *AppendAnswer) []byte {
	b = appendUint(b, fieldAnswer, a.Request)
	b = appendLength(b, fieldAnsAppend, sizeResponse(&a.Response))
	b = writeHeader(b, &a.Response.RPCHeader)
	b = appendUint(b, 2, a.Response.Term)
	b = appendUint(b, 3, a.Response.LastLog)
	b = appendBool(b, 4, a.Response.Success)
	return appendBool(b, 5, a.Response.NoRetryBackoff)
}
