package cases

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/client"
)

// LEN-3, DL-11.
func TestT076(t *testing.T) {
	k := begin(t, "drop-head dead-letters the oldest, in order")
	d := k.queue("d", nil)
	q := k.queue("q", dlx(d, args{"x-max-length": 2}))
	k.publish(q, numbers(0, 9)...)
	k.ready(d, 8)
	first := k.get(d, true)
	k.same("death", death(&first.Received, 0), q+" maxlen 1")
	k.same("dead", append([]string{string(first.Body)}, k.bodies(d, 7)...), numbers(0, 7))
	k.same("kept", k.bodies(q, 2), []string{"8", "9"})
}

// LEN-4.
func TestT078(t *testing.T) {
	k := begin(t, "a full queue takes a message as soon as one has left")
	q := k.queue("q", args{"x-max-length": 10, "x-overflow": "reject-publish"})
	k.publish(q, numbers(1, 10)...)
	for range 3 {
		_, err := k.try(q, "too many")
		k.rejected(err, "")
		k.get(q, true)
		k.publish(q, "fits")
	}
}

// LEN-2, LEN-4.
func TestT079(t *testing.T) {
	k := begin(t, "limit 0 holds nothing")
	drop, refuse := k.queue("drop", args{"x-max-length": 0}), k.queue("refuse", args{"x-max-length": 0, "x-overflow": "reject-publish"})
	for range 3 {
		k.publish(drop, "m")
		_, err := k.try(refuse, "m")
		k.rejected(err, "")
	}
	k.same("ready", k.stats(drop).Messages+k.stats(refuse).Messages, 0)
}

// LEN-1, LEN-3.
func TestT080(t *testing.T) {
	k := begin(t, "returned messages are the first to go over the limit")
	q := k.queue("q", args{"x-max-length": 2})
	k.publish(q, "1", "2")
	a, b := k.get(q, false), k.get(q, false)
	k.publish(q, "3", "4", "5")
	k.settle(a, nackRequeue)
	k.settle(b, nackRequeue)
	k.same("ready", k.stats(q).MessagesReady, 2)
	k.same("kept", k.bodies(q, 2), []string{"4", "5"})
}

// LEN-2.
func TestT081(t *testing.T) {
	k := begin(t, "bytes count bodies only; a message above the limit harms no other")
	q := k.queue("q", args{"x-max-length-bytes": 100})
	for range 5 {
		_, err := k.try(q, strings.Repeat("b", 20), headers(client.Table{"padding": strings.Repeat("h", 60)}))
		k.must(err)
	}
	k.same("ready", k.stats(q).MessagesReady, 5)
	k.publish(q, strings.Repeat("x", 101))
	k.same("ready after the large one", k.stats(q).MessagesReady, 5)
}

// LEN-5.
func TestT084(t *testing.T) {
	k := begin(t, "reject-publish-dlx refuses and dead-letters")
	d := k.queue("d", nil)
	q := k.queue("q", dlx(d, args{"x-max-length": 2, "x-overflow": "reject-publish-dlx"}))
	k.publish(q, "0", "1")
	for _, b := range numbers(2, 4) {
		_, err := k.try(q, b)
		k.rejected(err, "")
	}
	k.ready(d, 3)
	first := k.get(d, true)
	k.same("death", death(&first.Received, 0), q+" maxlen 1")
	k.same("dead", append([]string{string(first.Body)}, k.bodies(d, 2)...), numbers(2, 4))
	k.same("kept", k.bodies(q, 2), []string{"0", "1"})
}
