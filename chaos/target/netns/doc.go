// Package netns drives nodes on Linux, with root: each has a network namespace and a disk of
// its own. What connects them is a switch in this process, which cuts and slows links each way
// for itself and needs nothing of the kernel but TUN devices; the disks are ext4 on loop
// devices, which fill up, freeze, fail and lose their power.
//
// All of it is made inside namespaces that only this program sees: it runs itself again in them
// (Again), and what it made goes with the last process there.
package netns

import "errors"

// Options say what to run. Zero values are the defaults.
type Options struct {
	Binary, OtherBinary string // programs of nodes: the current build, and another one if there is one
	Dir                 string // holds the nodes' files and the images of their disks; required
	Nodes               int    // 0: 3
	Settings            string // lines that every node.yaml gets besides
	DiskBytes           int64  // of each node's disk, sparse; 0: 1 GiB
}

// errElsewhere is why there is no driver.
var errElsewhere = errors.New("netns: needs Linux and root, for namespaces, TUN devices and disks of its own")
