// Package browsertest opens the web page in a real browser: every page in both themes, without a fault that axe-core or
// the browser finds, and every change through the page's own forms and scripts. It has tests only; `make management-test`
// installs chromium, fetches axe-core and runs them.
package browsertest
