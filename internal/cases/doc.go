// Package cases holds the numbered black-box cases: what a client sees of the rules of
// docs/semantics.md, on a cluster of three real processes. A case is a test TestTnnn,
// its rules stand above it; `make cases` prints a line for each.
package cases
