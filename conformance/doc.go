// Package conformance runs ordinary AMQP 0-9-1 clients against real nodes: libraries that
// know nothing of this broker must not need to.
package conformance
