package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/quorate/quorate/id"
)

// metaVersion is the first byte of what gossip carries per node: version, epoch (8 bytes,
// big endian), then peer address, client address, version of the program and, unless it
// has none, name of the store, each with its length as a varint. Nodes of all versions must read what follows a known version;
// bytes behind are left to later ones.
const metaVersion = 1

// Node is a member of the cluster as gossip shows it.
type Node struct {
	ID         id.NodeID
	Epoch      id.Epoch
	PeerAddr   string // host:port of the node-to-node API
	ClientAddr string // host:port of the clients' API
	GossipAddr string // IP:port at which its gossip was seen last; "" of this node itself
	Version    string
	Store      id.StoreID // "": a build that knows no stores
	Alive      bool
}

// Event reports that a node joined, changed or left.
type Event struct {
	Node Node
}

// Alive returns those of the nodes that are held for alive, in their order.
func Alive(nodes []Node) []id.NodeID {
	var ids []id.NodeID
	for _, n := range nodes {
		if n.Alive {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// encodeMeta returns the form of a node in gossip; its id and liveness are gossip's own.
func encodeMeta(n Node) []byte {
	b := []byte{metaVersion}
	b = binary.BigEndian.AppendUint64(b, uint64(n.Epoch))
	texts := []string{n.PeerAddr, n.ClientAddr, n.Version}
	if n.Store != "" {
		texts = append(texts, string(n.Store))
	}
	for _, s := range texts {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

// readMeta reads what encodeMeta wrote.
func readMeta(b []byte) (Node, error) {
	if len(b) == 0 || b[0] != metaVersion {
		return Node{}, fmt.Errorf("the metadata of the node in gossip has %d bytes and not version %d: it runs another program", len(b), metaVersion)
	}
	b = b[1:]
	if len(b) < 8 {
		return Node{}, errMetaShort
	}
	n := Node{Epoch: id.Epoch(binary.BigEndian.Uint64(b))}
	b = b[8:]
	var err error
	for _, s := range []*string{&n.PeerAddr, &n.ClientAddr, &n.Version} {
		if *s, b, err = readMetaText(b); err != nil {
			return Node{}, err
		}
	}
	if len(b) > 0 { // older builds say nothing of stores
		var store string
		store, _, err = readMetaText(b)
		n.Store = id.StoreID(store)
	}
	return n, err
}

// readMetaText returns a text and what comes after it. Nothing is read beyond b, whatever its length says.
func readMetaText(b []byte) (text string, rest []byte, err error) {
	size, used := binary.Uvarint(b)
	if used <= 0 || size > uint64(len(b)-used) {
		return "", nil, errMetaShort
	}
	return string(b[used : used+int(size)]), b[used+int(size):], nil
}

var errMetaShort = errors.New("the metadata of the node in gossip is cut off")
