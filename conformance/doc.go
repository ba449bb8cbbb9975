// Package conformance shows that ordinary AMQP 0-9-1 clients work with this broker although they
// were not written for it.
//
// A scenario is a script of commands and their expected answers, written once. Each client library
// has a small program that carries the commands out with the library's own API. It reads a command
// from each line of its standard input, and writes an answer to each line of its standard output.
// The same scripts run against nodes of this broker and, where it is installed, against RabbitMQ.
// Where an answer is known to differ, the script has both, with the rule that explains it; an answer that no longer
// differs is a failure as well.
package conformance
