// Command report turns the JSON stream of `go test -json` over the numbered
// black-box cases into one line per case and a closing line of figures.
//
// It reads standard input and writes standard output:
//
//	T011 ok      0.12s  default exchange cannot be changed
//	T012 skip    0.00s  needs users
//	T013 FAIL    0.31s
//	2 passed, 1 failed, 1 skipped
//
// A case is a test TestT001 with any number of subtests; the test sets its title with
// t.Attr("case", title). A test whose every subtest was skipped counts as skipped. The output of a
// failed case follows its line. Exit status is 1 when a case failed, when the package did not
// build, or when no case ran at all.
package main

import (
	"fmt"
	"os"
)

// main exits with 2 if it cannot read the input, and with 1 if a case failed.
func main() {
	ok, err := Report(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintf(os.Stderr, "report: %v\n", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}
