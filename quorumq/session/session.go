// Package session is the other end of a queue's protocol, as a gateway holds it: a
// Publisher knows which messages a queue has not answered yet and resends them under
// the same numbers (PUB-6); a Consumer knows which delivery is new and which outcomes
// the queue has not taken yet (DEL-12).
//
// The types compute only: no clock, no goroutine, no lock. Their owner serialises all
// calls to one value; values are independent of each other. Nothing here fails: what
// the queue refuses for good is reported through the callbacks and Failed.
package session
