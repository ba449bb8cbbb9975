// Package session is a gateway's end of a queue's protocol. A Publisher knows which messages the
// queue has not answered, and sends them again under the same numbers (PUB-6). A Consumer knows
// which deliveries are new, and which outcomes the queue has not answered (DEL-12).
//
// The types only compute: they use no clock, no goroutine and no lock. The owner of a value
// serialises all calls to it; values are independent of each other. Nothing here returns an error:
// what the queue refuses for good is reported through the callbacks and Failed.
package session
