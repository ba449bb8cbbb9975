// Package runbooks tries the runbooks of docs/runbooks: each command of a page runs on a real
// cluster that is in the situation the page is about, and must print what the page shows. It has
// tests alone.
package runbooks
