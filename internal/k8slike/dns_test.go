//go:build linux

package k8slike

import (
	"encoding/binary"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Names as a cluster's DNS has them.
const (
	headless = "quorate-headless"
	join     = "quorate-join"
	zone     = "quorate.svc.cluster.local"
)

// dns answers for the headless service: an address for each pod, all of them for the
// service, none for names that are not there. From keepAll on it also answers for the service
// to join at.
type dns struct {
	mu   sync.Mutex
	pods map[string]string // name of a pod to its published address
	kept map[string]string // answers about pods that a cache keeps; "": no such name
	all  []string          // the answer about the headless service that a cache keeps; nil: none
}

func serveDNS(t *testing.T, address string) *dns {
	t.Helper()
	var lc net.ListenConfig
	conn, err := lc.ListenPacket(t.Context(), "udp4", address)
	if err != nil {
		t.Fatal(err)
	}
	d := &dns{pods: map[string]string{}, kept: map[string]string{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if a := d.answer(buf[:n]); a != nil {
				_, _ = conn.WriteTo(a, from) // the resolver asks again
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return d
}

// publish sets a pod's address; an empty one takes its name away.
func (d *dns) publish(pod, address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if address == "" {
		delete(d.pods, pod)
		return
	}
	d.pods[pod] = address
}

// keep makes the answer about a pod of this moment the last one, as a cache would whose time
// to live is longer than the test.
func (d *dns) keep(pod string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept[pod] = d.pods[pod]
}

// keepAll is keep of the answer about the headless service and of those about its pods. Pods that are
// all new have nothing but the service to join at then to find one another by.
func (d *dns) keepAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = d.addresses()
	maps.Copy(d.kept, d.pods)
}

// addresses returns those of all pods. mu is held.
func (d *dns) addresses() []string {
	return slices.Sorted(maps.Values(d.pods))
}

func (d *dns) lookup(name string) (found []string, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name, in := strings.CutSuffix(strings.ToLower(name), "."+zone)
	if !in {
		return nil, false
	}
	switch {
	case name == join && d.all != nil:
		return []string{service}, true
	case name == headless && d.all != nil:
		return d.all, true
	case name == headless:
		return d.addresses(), true
	}
	pod, in := strings.CutSuffix(name, "."+headless)
	a, is := d.kept[pod]
	if !is {
		a = d.pods[pod]
	}
	if !in || a == "" {
		return nil, false
	}
	return []string{a}, true
}

// Parts of a DNS message.
const (
	headerBytes = 12
	typeA       = 1
	ttlSeconds  = 5
	noName      = 3 // response code
)

// answer returns the response to a query of one question, or nil if it is none.
func (d *dns) answer(query []byte) []byte {
	name, end, err := question(query)
	if err != nil {
		return nil
	}
	out := append([]byte(nil), query[:end]...)
	binary.BigEndian.PutUint16(out[4:], 1) // questions
	clear(out[6:headerBytes])              // no answers yet, none of the other sections
	addresses, known := d.lookup(name)
	out[2], out[3] = 0x85, 0x80 // a response with authority; recursion is there
	if !known {
		out[3] |= noName
		return out
	}
	if binary.BigEndian.Uint16(query[end-4:]) != typeA {
		return out
	}
	binary.BigEndian.PutUint16(out[6:], uint16(len(addresses)))
	for _, a := range addresses {
		out = append(out, 0xc0, headerBytes, 0, typeA, 0, 1, 0, 0, 0, ttlSeconds, 0, net.IPv4len)
		out = append(out, net.ParseIP(a).To4()...)
	}
	return out
}

// question returns the name that is asked and where the question ends.
func question(query []byte) (name string, end int, err error) {
	errShort := errors.New("the query is cut off")
	var labels []string
	at := headerBytes
	for {
		if at >= len(query) {
			return "", 0, errShort
		}
		n := int(query[at])
		at++
		if n == 0 {
			break
		}
		if at+n > len(query) {
			return "", 0, errShort
		}
		labels = append(labels, string(query[at:at+n]))
		at += n
	}
	if at+4 > len(query) {
		return "", 0, errShort
	}
	return strings.Join(labels, "."), at + 4, nil
}
