package catalog

import (
	"encoding/binary"

	"github.com/quorate/quorate/id"
)

// appendQueue writes a queue's record in the form of a version.
func appendQueue(b []byte, q *QueueRecord, version Version) []byte {
	b = appendString(b, q.Name)
	b = binary.AppendUvarint(b, uint64(q.UID))
	b = appendString(b, q.Type)
	b = appendBool(b, q.Durable)
	b = appendBool(b, q.Exclusive)
	b = appendBool(b, q.AutoDelete)
	b = appendTable(b, q.Arguments)
	b = appendNodeIDs(b, q.Members)
	b = appendString(b, q.Leader)
	b = binary.AppendVarint(b, q.CreatedMs)
	b = binary.AppendUvarint(b, q.Index)
	b = binary.AppendUvarint(b, uint64(q.Size))
	b = binary.AppendUvarint(b, q.Changed)
	b = binary.AppendUvarint(b, q.DrainDeleting)
	b = appendLife(b, q.Exclusive, q.Owner, q.Durable, q.Home)
	b = appendBool(b, q.Change != nil)
	if g := q.Change; g != nil {
		b = binary.AppendUvarint(b, g.ID)
		b = appendString(b, g.Join)
		b = appendString(b, g.Leave)
		b = binary.AppendUvarint(b, uint64(g.Size))
		b = appendBool(b, g.Cancelled)
	}
	if version >= VersionDeclarers {
		b = appendDeclarer(b, q)
	}
	return b
}

// queue reads what appendQueue wrote.
func (r *reader) queue(vhost string) *QueueRecord {
	q := &QueueRecord{
		VHost: vhost, Name: r.string("queue"), UID: id.QueueUID(r.uvarint("queue uid")),
		Type: QueueType(r.string("queue type")), Durable: r.bool("queue durable"),
		Exclusive: r.bool("queue exclusive"), AutoDelete: r.bool("queue auto_delete"),
		Arguments: r.table("queue arguments"), Members: r.nodeIDs("queue members"),
		Leader: id.NodeID(r.string("queue leader")), CreatedMs: r.varint("queue created"),
		Index: r.uvarint("queue index"),
	}
	q.Size, q.Changed = r.size("queue size"), r.uvarint("queue changed")
	if r.form > snapshotWithoutEnd {
		q.DrainDeleting = r.uvarint("queue drain-deleting")
	}
	q.Owner, q.Home = r.life(q.Exclusive, q.Durable)
	if r.bool("queue change") {
		q.Change = &MemberChange{
			ID: r.uvarint("change"), Join: id.NodeID(r.string("change joins")), Leave: id.NodeID(r.string("change leaves")),
			Size: r.size("change size"), Cancelled: r.bool("change cancelled"),
		}
	}
	if r.machine >= VersionDeclarers {
		r.declarer(q)
	}
	return q
}
