// Package peers drives this project, and the brokers that it is compared with, with the same
// workloads: three servers on loopback, replicated queues, publishers that wait for confirms
// and consumers that ack. Over AMQP 0-9-1 the client library is the same as well. What
// matters most is how much processor time the servers take for a message, because that
// changes least with what else the machine does.
//
// Servers are programs that somebody installed; one that is not there is skipped with a
// reason. Each run has data directories, ports and processes of its own and leaves none.
// Linux only: processor time is read from /proc.
package peers
