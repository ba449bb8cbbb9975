package operators

import "fmt"

// Alarm is what ails a node.
type Alarm struct {
	Resource string // disk, memory, clock or membership
	Reason   string // a sentence without the node's name
}

// Alarms returns the alarms of a node, from the status that was asked for. A node that does not answer raises no
// alarm: NodeStatus.Answers reports that.
func (n *NodeStatus) Alarms() (all []Alarm) {
	alarm := func(resource, format string, args ...any) {
		all = append(all, Alarm{resource, fmt.Sprintf(format, args...)})
	}
	if n.Refused != "" {
		alarm("membership", "is refused: %s", n.Refused)
	}
	if d := n.Disk; d != nil && d.Pressure != "none" {
		alarm("disk", "%d bytes are free on %s, which is below its limit %s", d.Free, d.Path, d.Pressure)
	}
	if d := n.Disk; d != nil && d.Hangs > 0 {
		alarm("disk", "a write to %s hangs for %s", d.Path, d.Hangs)
	}
	if v := n.Vitals; v != nil && v.MemoryHigh > 0 && v.Memory > v.MemoryHigh {
		alarm("memory", "%d bytes of memory are in use, above limits.memory_high (%d bytes): publishers are held back", v.Memory, v.MemoryHigh)
	}
	if k := n.Clock; k != nil && k.Off {
		alarm("clock", "the wall clock is %s off", k.Offset)
	}
	return all
}
