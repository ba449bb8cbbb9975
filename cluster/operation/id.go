package operation

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quorate/quorate/id"
)

// ID names an operation in the whole cluster, for ever: the node that runs it, the start
// of that node, and a number.
type ID struct {
	Node   id.NodeID
	Epoch  id.Epoch
	Number uint64
}

// String returns NODE.EPOCH.NUMBER.
func (x ID) String() string { return fmt.Sprintf("%s.%d.%d", x.Node, x.Epoch, x.Number) }

// ParseID reads what String wrote; names of nodes may have dots themselves.
func ParseID(s string) (ID, error) {
	fault := fmt.Errorf("operation: id %q is not NODE.EPOCH.NUMBER, as a list of operations shows it", s)
	rest, number, ok := cutLast(s)
	node, epoch, ok2 := cutLast(rest)
	if !ok || !ok2 || node == "" {
		return ID{}, fault
	}
	e, err := strconv.ParseUint(epoch, 10, 64)
	n, err2 := strconv.ParseUint(number, 10, 64)
	if err != nil || err2 != nil {
		return ID{}, fault
	}
	return ID{id.NodeID(node), id.Epoch(e), n}, nil
}

// cutLast is strings.Cut at the last dot: names of nodes may have dots.
func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}
