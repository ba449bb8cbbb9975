// Package chaos judges a cluster from the outside: it runs real node processes, lets
// clients publish and consume, kills, pauses and restarts members by a seeded schedule,
// records what the clients saw, and checks that record.
//
// A history is judged by what clients were promised: nothing confirmed is lost, nothing
// is invented or stored twice, each publisher's order holds, and a discarded message is
// in the dead-letter queue exactly once (PUB-6, PUB-7, DL-25).
package chaos
