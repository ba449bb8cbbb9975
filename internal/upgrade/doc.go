// Package upgrade rolls a cluster of real processes, one node after another, from an older
// build to this one and back while clients publish, consume and discard. There is nothing but
// tests in it.
//
// The older build is made from the git repository. Where its commit is not there, as in a
// shallow clone, the tests are skipped and say so.
package upgrade
