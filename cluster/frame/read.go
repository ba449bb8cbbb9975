package frame

import (
	"bytes"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/encoding/protowire"
)

// smallBytes is up to which size the data of entries shares one piece of memory with the
// others of its call; larger data has its own, so that it can be freed alone.
const smallBytes = 1 << 10

// fields calls one of two functions for every field of a message; false: it is malformed,
// or has a field of another type, or one that the functions refuse.
func fields(b []byte, number func(protowire.Number, uint64) bool, data func(protowire.Number, []byte) bool) bool {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		switch kind {
		case protowire.VarintType:
			v, n := protowire.ConsumeVarint(b)
			if n < 0 || !number(field, v) {
				return false
			}
			b = b[n:]
		case protowire.BytesType:
			v, n := protowire.ConsumeBytes(b)
			if n < 0 || !data(field, v) {
				return false
			}
			b = b[n:]
		default:
			return false
		}
	}
	return true
}

// readCall reads a RaftCall that holds AppendEntries; false: it is left to package proto.
func readCall(b []byte, known names) (In, bool) {
	var f In
	ok := fields(b, func(field protowire.Number, v uint64) bool {
		switch field {
		case fieldGroup:
			f.Group = v
		case fieldCall:
			f.Request = v
		default:
			return false
		}
		return true
	}, func(field protowire.Number, v []byte) bool {
		if field != fieldCallAppend || f.Call != nil {
			return false
		}
		f.Call = readAppendRequest(v, known)
		return f.Call != nil
	})
	return f, ok && f.Call != nil
}

// readAppendRequest returns nil if the bytes are not as this package writes them.
func readAppendRequest(b []byte, known names) *raft.AppendEntriesRequest {
	count, small, ok := countEntries(b)
	if !ok {
		return nil
	}
	r := &raft.AppendEntriesRequest{}
	var logs []raft.Log
	var shared []byte
	if count > 0 {
		logs, r.Entries = make([]raft.Log, count), make([]*raft.Log, 0, count)
		shared = make([]byte, 0, small)
	}
	hold := func(v []byte) []byte {
		if len(v) > smallBytes {
			return bytes.Clone(v)
		}
		from := len(shared)
		shared = append(shared, v...)
		return shared[from:len(shared):len(shared)]
	}
	ok = fields(b, func(field protowire.Number, v uint64) bool {
		switch field {
		case 2:
			r.Term = v
		case 3:
			r.PrevLogEntry = v
		case 4:
			r.PrevLogTerm = v
		case 6:
			r.LeaderCommitIndex = v
		default:
			return false
		}
		return true
	}, func(field protowire.Number, v []byte) bool {
		switch field {
		case 1:
			return readHeader(v, &r.RPCHeader, known)
		case 5:
			l := &logs[len(r.Entries)]
			r.Entries = append(r.Entries, l)
			return readEntry(v, l, hold)
		case 7:
			r.Leader = known.share(v) //nolint:staticcheck // older members send it
			return true
		default:
			return false
		}
	})
	if !ok {
		return nil
	}
	return r
}

// countEntries returns how many entries a request has and what their small data takes.
func countEntries(b []byte) (count, small int, ok bool) {
	skip := func(protowire.Number, uint64) bool { return true }
	ok = fields(b, skip, func(field protowire.Number, v []byte) bool {
		if field != 5 {
			return true
		}
		count++
		return fields(v, skip, func(_ protowire.Number, data []byte) bool {
			if len(data) <= smallBytes {
				small += len(data)
			}
			return true
		})
	})
	return count, small, ok
}

// readEntry refuses fields and types of entries that it does not know, which leaves the call to package
// proto.
func readEntry(b []byte, l *raft.Log, hold func([]byte) []byte) bool {
	return fields(b, func(field protowire.Number, v uint64) bool {
		switch {
		case field == 1:
			l.Index = v
		case field == 2:
			l.Term = v
		case field == 3 && v <= 0xff:
			l.Type = raft.LogType(v)
		default:
			return false
		}
		return true
	}, func(field protowire.Number, v []byte) bool {
		switch field {
		case 4:
			l.Data = hold(v)
		case 5:
			l.Extensions = hold(v)
		default:
			return false
		}
		return true
	})
}

// readHeader shares the peer's id.
func readHeader(b []byte, h *raft.RPCHeader, known names) bool {
	return fields(b, func(field protowire.Number, v uint64) bool {
		h.ProtocolVersion = raft.ProtocolVersion(int32(v))
		return field == 1
	}, func(field protowire.Number, v []byte) bool {
		switch field {
		case 2:
			h.ID = known.share(v)
		case 3:
			h.Addr = known.share(v)
		default:
			return false
		}
		return true
	})
}

// readAnswer reads a RaftAnswer that holds AppendEntries and no error; false: it is left
// to package proto.
func readAnswer(b []byte, known names) (In, bool) {
	var f In
	ok := fields(b, func(field protowire.Number, v uint64) bool {
		f.Request = v
		return field == fieldAnswer
	}, func(field protowire.Number, v []byte) bool {
		if field != fieldAnsAppend || f.Answer != nil {
			return false
		}
		f.Answer = readAppendResponse(v, known)
		return f.Answer != nil
	})
	return f, ok && f.Answer != nil
}

// readAppendResponse returns nil if the bytes are not as this package writes them.
func readAppendResponse(b []byte, known names) *raft.AppendEntriesResponse {
	r := &raft.AppendEntriesResponse{}
	ok := fields(b, func(field protowire.Number, v uint64) bool {
		switch field {
		case 2:
			r.Term = v
		case 3:
			r.LastLog = v
		case 4:
			r.Success = v != 0
		case 5:
			r.NoRetryBackoff = v != 0
		default:
			return false
		}
		return true
	}, func(field protowire.Number, v []byte) bool {
		return field == 1 && readHeader(v, &r.RPCHeader, known)
	})
	if !ok {
		return nil
	}
	return r
}
