package frame

import (
	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/encoding/protowire"
)

// readCall reads a RaftCall that holds AppendEntries; false: it is left to package proto.
func readCall(s source, known names) (In, bool) {
	var f In
	ok := s.fields(func(field protowire.Number, v uint64) bool {
		switch field {
		case fieldGroup:
			f.Group = v
		case fieldCall:
			f.Request = v
		default:
			return false
		}
		return true
	}, func(field protowire.Number, v source) bool {
		if field != fieldCallAppend || f.Call != nil {
			return false
		}
		f.Call = readAppendRequest(v, known)
		return f.Call != nil
	})
	return f, ok && f.Call != nil
}

// readAppendRequest returns nil if the bytes are not as this package writes them.
func readAppendRequest(s source, known names) *raft.AppendEntriesRequest {
	count, shared, ok := countEntries(s)
	if !ok {
		return nil
	}
	r := &raft.AppendEntriesRequest{}
	var logs []raft.Log
	var h holder
	if count > 0 {
		logs, r.Entries = make([]raft.Log, count), make([]*raft.Log, 0, count)
		h.shared = make([]byte, 0, shared)
	}
	ok = s.fields(func(field protowire.Number, v uint64) bool {
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
	}, func(field protowire.Number, v source) bool {
		switch field {
		case 1:
			return readHeader(v, &r.RPCHeader, known)
		case 5:
			l := &logs[len(r.Entries)]
			r.Entries = append(r.Entries, l)
			return readEntry(v, l, &h)
		case 7:
			r.Leader = known.share(v.view()) //nolint:staticcheck // older members send it
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
func countEntries(s source) (count, shared int, ok bool) {
	skip := func(protowire.Number, uint64) bool { return true }
	ok = s.fields(skip, func(field protowire.Number, v source) bool {
		if field != 5 {
			return true
		}
		count++
		return v.fields(skip, func(_ protowire.Number, data source) bool {
			shared += small(data)
			return true
		})
	})
	return count, shared, ok
}

// readEntry refuses fields and types of entries that it does not know, which leaves the call to package
// proto.
func readEntry(s source, l *raft.Log, h *holder) bool {
	return s.fields(func(field protowire.Number, v uint64) bool {
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
	}, func(field protowire.Number, v source) bool {
		switch field {
		case 4:
			l.Data = h.hold(v)
		case 5:
			l.Extensions = h.hold(v)
		default:
			return false
		}
		return true
	})
}

// readHeader shares the peer's id.
func readHeader(s source, h *raft.RPCHeader, known names) bool {
	return s.fields(func(field protowire.Number, v uint64) bool {
		h.ProtocolVersion = raft.ProtocolVersion(int32(v))
		return field == 1
	}, func(field protowire.Number, v source) bool {
		switch field {
		case 2:
			h.ID = known.share(v.view())
		case 3:
			h.Addr = known.share(v.view())
		default:
			return false
		}
		return true
	})
}

// readAnswer reads a RaftAnswer that holds AppendEntries and no error; false: it is left
// to package proto.
func readAnswer(s source, known names) (In, bool) {
	var f In
	ok := s.fields(func(field protowire.Number, v uint64) bool {
		f.Request = v
		return field == fieldAnswer
	}, func(field protowire.Number, v source) bool {
		if field != fieldAnsAppend || f.Answer != nil {
			return false
		}
		f.Answer = readAppendResponse(v, known)
		return f.Answer != nil
	})
	return f, ok && f.Answer != nil
}

// readAppendResponse returns nil if the bytes are not as this package writes them.
func readAppendResponse(s source, known names) *raft.AppendEntriesResponse {
	r := &raft.AppendEntriesResponse{}
	ok := s.fields(func(field protowire.Number, v uint64) bool {
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
	}, func(field protowire.Number, v source) bool {
		return field == 1 && readHeader(v, &r.RPCHeader, known)
	})
	if !ok {
		return nil
	}
	return r
}
