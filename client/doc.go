// Package client publishes to and consumes from a Quorate cluster, over all its nodes.
//
// A Client knows several addresses, learns the rest from the cluster and moves to another node when
// one fails. A Publisher numbers its messages and resends unanswered ones under the same numbers,
// so that a lost node neither loses nor duplicates a message (PUB-6). A Consumer reopens on another
// node; deliveries of the lost stream are then stale, because the queue delivers them again
// (DEL-8).
//
// A call takes a context and one value: a struct if there are several parameters, otherwise the
// name or id of its subject. A callback comes last. Only Client.Publisher takes no context, because
// it does not wait: a Publisher connects by itself, now and after every loss of its stream. All
// types are this package's own. In types of calls about the cluster, the tag `api` of each field
// names the field of the API (docs/grpc.md) that it stands for.
//
// Listings such as Queues are iterators that fetch while they are ranged over; Collect makes a
// slice of one. Listings of what nodes keep in memory, such as Connections, end with a
// *SilentNodesError if nodes did not answer.
//
// Every call gives up when its context ends. Methods of all types may be called concurrently,
// unless their comment says otherwise.
//
// Package clienttest runs a cluster inside a program's own tests.
package client
