// Package client publishes to and consumes from a Quorate cluster, over all its nodes.
//
// A Client knows several addresses, learns the rest from the cluster and moves to
// another node when one fails. A Publisher numbers its messages and sends what is
// unanswered again under the same numbers, so that a lost node neither loses nor doubles
// a message (PUB-6). A Consumer opens again on another node; deliveries of the lost
// stream are then stale, because the queue gives them out anew (DEL-8).
//
// A call takes a context and one value: a struct where there is more than one thing to say, else the name or id of
// what it is about. A function that is called with what happens comes behind it. Types are this package's own; those
// of calls about the cluster name in the tag `api` of each field the field of the API (docs/grpc.md) that it stands for.
//
// Listings such as Queues are iterators, which ask for what they bring while they are ranged over; Collect makes a slice of one. Those of what nodes have in memory, such as Connections, end in
// a *SilentNodesError if nodes did not answer.
//
// Every call takes a context first and gives up when it ends. Methods of all types may be
// called concurrently, unless their comment says otherwise.
//
// Package clienttest runs a cluster inside a program's own tests.
package client
