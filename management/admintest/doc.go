// Package admintest shows that rabbitmqadmin, the script of RabbitMQ's management plugin, works with this broker
// unchanged: every verb and every kind of object that it knows. It has tests only; `make management-test` fetches the
// script from Debian and runs them.
package admintest
