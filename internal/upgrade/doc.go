// Package upgrade rolls a cluster of real processes, one node after another, from an older build to
// this one and back while clients publish, consume and discard. It has tests, and older builds for them and others.
//
// The tests build the older version from the git repository. Where its commit is absent, as in a
// shallow clone, they are skipped with the reason.
package upgrade
