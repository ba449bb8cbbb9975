// Package cases has the numbered black-box cases: what a client sees of the rules of
// docs/semantics.md, on a cluster of three real processes. A case is a test TestTnnn; the comment
// above it names its rules. `make cases` prints a line for each case.
package cases
