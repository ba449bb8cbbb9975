// Package report shows a run to people and programs: one HTML file that needs nothing else, and
// JSON. Both follow from the history, from what check found in it, and from the nodes' logs.
package report
