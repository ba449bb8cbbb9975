// Package conformance shows that ordinary AMQP 0-9-1 clients, which know nothing of this
// broker, need not know it.
//
// A scenario is a script of commands and of what they must answer, written once. Each
// client library has a small program that carries the commands out with the library's own
// API: its standard input has a command a line, its standard output an answer. The same
// scripts run against nodes of this broker and, where it is installed, against RabbitMQ.
// Where an answer is known to differ, the script has both, with the rule that says why; an
// answer that does not differ any more is a failure as well.
package conformance
