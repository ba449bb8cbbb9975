// Package replica holds a node's members of the queues' groups. A Host opens and closes them as the
// catalog says, takes commands for them, and acts for the queues that the node leads: it delivers, keeps
// their timers, puts their settings in force, and notifies them of nodes that come and go (DC-1). A Member is
// one of them, and Led a queue as the node leads it in one term. Members of queues at rest hibernate.
//
// The gateway is made of the host, whose members take its commands, and the host delivers to the gateway.
// So there is an order: New, with what is below the host; then what is above it, made of the host; then
// Start with that, before anybody can send the host a request. Close comes last, also for a host that was
// never started.
package replica
