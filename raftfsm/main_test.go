package raftfsm

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
)

// TestMain lets more tests run side by side than there are processors: clusters mostly
// wait for elections and for the disk.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f != nil && f.Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) {
		if err := f.Value.Set(fmt.Sprint(4 * runtime.GOMAXPROCS(0))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}
