// Package replica holds a node's members of the queues' groups. A Host opens and closes them as the catalog says, and
// accepts commands for them. For the queues that the node leads it delivers messages, keeps timers, puts settings in
// force, and notifies the queues when nodes come or go (DC-1). A Member is one of these members. A Led is a queue as
// the node leads it in one term. Members of queues that nobody uses hibernate.
//
// The gateway sends commands to the host's members, and the host delivers to the gateway. Therefore they are created in
// this order: New, with the parts below the host; then the parts above it, which use the host; then Start with those,
// before anybody can send the host a request. Close comes last, even for a host that was never started.
package replica
