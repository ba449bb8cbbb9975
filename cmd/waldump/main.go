// Command waldump reads the segments of a node's log while the node is stopped: it lists
// segments, groups and records and checks every checksum.
//
//	waldump [-json] [-records] [-data] [-group n] directory [segment ...]
//
// The exit status is 0 if everything is intact, 1 if something is damaged or cannot be read, and 2
// for wrong usage. It changes nothing.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/quorate/quorate"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal"
	"github.com/quorate/quorate/wal/vfs"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// Exit statuses.
const (
	statusOK    = 0
	statusBad   = 1
	statusUsage = 2
)

// options are the flags.
type options struct {
	json, records, data bool
	group               uint64 // 0 is all
}

// run dumps the log and returns the exit status. It skips and counts damaged parts.
func run(args []string, out, errOut io.Writer) int {
	var o options
	flags := flag.NewFlagSet("waldump", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.BoolVar(&o.json, "json", false, "print a JSON object on each line")
	flags.BoolVar(&o.records, "records", false, "print every record")
	flags.BoolVar(&o.data, "data", false, "with -records: print the bytes of entries in hexadecimal")
	flags.Uint64Var(&o.group, "group", 0, "only records of this `group`")
	version := flags.Bool("version", false, "print version, commit and Go version")
	flags.Usage = func() {
		_, _ = fmt.Fprintln(errOut, "usage: waldump [-json] [-records] [-data] [-group n] directory [segment ...]")
		flags.PrintDefaults()
	}
	if flags.Parse(args) != nil {
		return statusUsage
	}
	if *version {
		_, _ = fmt.Fprintln(out, quorate.About("waldump"))
		return statusOK
	}
	if flags.NArg() == 0 {
		flags.Usage()
		return statusUsage
	}
	d := newDump(o, out)
	err := d.directory(flags.Arg(0), flags.Args()[1:])
	if err == nil {
		err = d.out.finish(d)
	}
	if err != nil {
		_, _ = fmt.Fprintln(errOut, "waldump:", err)
		return statusBad
	}
	if d.damaged > 0 {
		_, _ = fmt.Fprintf(errOut, "waldump: %d places are damaged\n", d.damaged)
		return statusBad
	}
	return statusOK
}

// dump gathers what the segments hold about each group.
type dump struct {
	o       options
	out     printer
	groups  map[id.GroupID]*groupInfo
	damaged int
}

// groupInfo is a group in all segments that were read.
type groupInfo struct {
	Group    id.GroupID     `json:"group"`
	Entries  int            `json:"entries"`
	Retained int            `json:"retained"`
	States   int            `json:"states"`
	Bytes    int64          `json:"bytes"`
	Deleted  bool           `json:"deleted"` // and not created again
	State    *wal.StateInfo `json:"state"`   // the newest; nil if none was read
}

// newDump picks the printer by the flags.
func newDump(o options, out io.Writer) *dump {
	d := &dump{o: o, groups: map[id.GroupID]*groupInfo{}}
	if o.json {
		d.out = newJSON(out, o)
	} else {
		d.out = newTable(out, o)
	}
	return d
}

// directory reads the segments of a directory, or those that are named.
func (d *dump) directory(path string, names []string) error {
	if s, err := os.Stat(path); err != nil {
		return err
	} else if !s.IsDir() {
		return fmt.Errorf("%s is not a directory: name the log's directory, then segments", path)
	}
	dir, err := vfs.OS(path)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		if names, err = wal.Segments(dir); err != nil {
			return err
		}
		if len(names) == 0 {
			return fmt.Errorf("%s has no segments: is it the log's directory?", path)
		}
	}
	for _, name := range names {
		if err := d.segment(dir, name); err != nil {
			return err
		}
	}
	return nil
}

// segment reads one segment record by record, so a large log needs little memory.
func (d *dump) segment(dir vfs.Dir, name string) error {
	groups := map[id.GroupID]struct{}{}
	info, err := wal.Inspect(dir, name, func(r wal.Record) error {
		if d.o.group != 0 && r.Group != id.GroupID(d.o.group) {
			return nil
		}
		groups[r.Group] = struct{}{}
		d.count(&r)
		if !d.o.records {
			return nil
		}
		return d.out.record(name, &r)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	d.damaged += len(info.Damage)
	return d.out.segment(&info, len(groups))
}

// count adds a record to its group. The newest state counts; one after a deletion means that the
// group was made again.
func (d *dump) count(r *wal.Record) {
	g := d.groups[r.Group]
	if g == nil {
		g = &groupInfo{Group: r.Group}
		d.groups[r.Group] = g
	}
	g.Bytes += r.Bytes
	switch r.Kind {
	case wal.KindEntry:
		g.Entries++
	case wal.KindRetained:
		g.Retained++
	case wal.KindState:
		g.States++
		g.State, g.Deleted = r.State, false
	case wal.KindDeleted:
		g.State, g.Deleted = nil, true
	case wal.KindKeep, wal.KindFooter:
	}
}
