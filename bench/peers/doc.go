// Package peers runs the same workloads against this project and the brokers that it is compared
// with: three servers on loopback, replicated queues, publishers that wait for confirms and
// consumers that ack. Over AMQP 0-9-1 the client library is the same as well. The most important
// figure is the servers' processor time for a message, because other load on the machine changes it
// least.
//
// The servers must be installed; one that is not is skipped with the reason. Each run has data
// directories, ports and processes of its own and leaves none. Linux only: processor time is read
// from /proc.
package peers
