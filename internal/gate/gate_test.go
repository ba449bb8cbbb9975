package gate

import (
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// door is a gate before a listener on loopback.
type door struct {
	t *testing.T
	*Gate
	l net.Listener
}

func open(t *testing.T, c Config) *door {
	t.Helper()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{t, New(c), nil}
	d.l = d.Listen(l)
	t.Cleanup(func() { _ = d.l.Close() })
	return d
}

// connect connects from an address of loopback, and returns both ends; the server's is nil where
// the gate lets nobody in.
func (d *door) connect(from string) (client net.Conn) {
	d.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	client, err := dialer.DialContext(d.t.Context(), "tcp", d.l.Addr().String())
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = client.Close() })
	return client
}

func (d *door) accept() *Conn {
	d.t.Helper()
	nc, err := d.l.Accept()
	if err != nil {
		d.t.Fatal(err)
	}
	c, ok := nc.(*Conn)
	if !ok {
		d.t.Fatalf("a %T", nc)
	}
	return c
}

func (d *door) both(from string) (net.Conn, *Conn) {
	d.t.Helper()
	client := d.connect(from)
	return client, d.accept()
}

// ended waits until a connection is closed.
func ended(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%v is open: %v", c.LocalAddr(), err)
	}
}

// alive checks that bytes pass.
func alive(t *testing.T, client net.Conn, server *Conn) {
	t.Helper()
	if _, err := server.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	_ = client.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(client, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

// The address with the most unauthenticated clients gives up the one that has been silent for the longest time.
func TestTheBusiestAddressGivesWay(t *testing.T) {
	d := open(t, Config{MaxUnauthenticated: 4, MaxPerAddress: 3})
	lone, loneEnd := d.both("127.0.0.1")
	first, _ := d.both("127.0.0.2")
	second, secondEnd := d.both("127.0.0.2")
	third, thirdEnd := d.both("127.0.0.2")
	fourth, fourthEnd := d.both("127.0.0.2") // its address has its share
	ended(t, first)
	_, _ = d.both("127.0.0.3") // and now all have theirs
	ended(t, second)
	alive(t, lone, loneEnd)
	alive(t, third, thirdEnd)
	alive(t, fourth, fourthEnd)
	if s := d.Stats(); s.CrowdedOut != 2 || s.Connections != 4 || s.Unauthenticated != 4 {
		t.Errorf("%+v", s)
	}
	_ = secondEnd.Close() // as its server does
	if s := d.Stats(); s.Connections != 4 {
		t.Errorf("%+v", s)
	}
}

// Whose credentials are being looked at gives way to nobody: the next one is refused.
func TestThoseBeingCheckedStay(t *testing.T) {
	d := open(t, Config{MaxUnauthenticated: 2, MaxPerAddress: 2})
	one, oneEnd := d.both("127.0.0.1")
	_, twoEnd := d.both("127.0.0.1")
	doneOne, doneTwo := oneEnd.Check(), twoEnd.Check()
	refused := d.connect("127.0.0.1")
	go func() { _, _ = d.l.Accept() }()
	ended(t, refused)
	if s := d.Stats(); s.Refused != 1 || s.CrowdedOut != 0 {
		t.Errorf("%+v", s)
	}
	doneTwo()
	oneEnd.Admit()
	doneOne()
	alive(t, one, oneEnd)
	_ = d.connect("127.0.0.1")
	for s := d.Stats(); s.Unauthenticated != 2; s = d.Stats() { // the goroutine above accepts it
		time.Sleep(time.Millisecond)
	}
	if s := d.Stats(); s.Connections != 3 || s.Admitted != 1 || s.CrowdedOut != 0 {
		t.Errorf("%+v", s)
	}
}

// An unauthenticated client does not keep somebody else out of the last place.
func TestUnauthenticatedLeaveTheLastPlace(t *testing.T) {
	d := open(t, Config{MaxConnections: 2})
	in, inEnd := d.both("127.0.0.1")
	inEnd.Admit()
	outsider, _ := d.both("127.0.0.1")
	_, lastEnd := d.both("127.0.0.1")
	ended(t, outsider)
	lastEnd.Admit()
	refused := d.connect("127.0.0.1")
	go func() { _, _ = d.l.Accept() }()
	ended(t, refused)
	alive(t, in, inEnd)
	if s := d.Stats(); s.Refused != 1 || s.CrowdedOut != 1 || s.Connections != 2 || s.Unauthenticated != 0 {
		t.Errorf("%+v", s)
	}
}

// Who does not log in in time is closed, unless credentials are being checked, or it asks for health.
func TestLate(t *testing.T) {
	d := open(t, Config{LoginTimeout: 50 * time.Millisecond})
	known, knownEnd := d.both("127.0.0.1")
	knownEnd.Admit()
	watching, watchingEnd := d.both("127.0.0.1")
	_ = watchingEnd.Hold()
	checked, checkedEnd := d.both("127.0.0.1")
	done := checkedEnd.Check()
	silent, silentEnd := d.both("127.0.0.1")
	ended(t, silent)
	_ = silentEnd.Close()
	again, _ := d.both("127.0.0.1")
	ended(t, again) // the others have had their time twice
	alive(t, known, knownEnd)
	alive(t, watching, watchingEnd)
	alive(t, checked, checkedEnd)
	done()
	ended(t, checked)
	if s := d.Stats(); s.Late != 3 || s.Connections != 2 || s.Unauthenticated != 1 {
		t.Errorf("%+v", s)
	}
}

// The gate's connection is found below TLS.
func TestFrom(t *testing.T) {
	d := open(t, Config{})
	_, end := d.both("127.0.0.1")
	if From(tls.Server(end, &tls.Config{})) != end || From(nil) != nil { // no handshake
		t.Error("it is not found")
	}
	var none *Conn
	none.Admit()
	none.Check()()
	none.Hold()()
	if !none.Known() {
		t.Error("who comes through no gate is an outsider")
	}
}

// What connections leave of the file descriptors.
func TestCeiling(t *testing.T) {
	for _, c := range []struct{ limit, clients, own, unauthenticated, callers int }{
		{64, 32, 48, 16, 8},
		{256, 128, 224, 64, 16},
		{1024, 512, 960, 256, 64},
		{1500, 988, 1407, 494, 64},
		{65536, 49152, 61440, 24576, 2048},
		{math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt / 2, math.MaxInt / 2},
	} {
		if clients, own := ceilingOf(c.limit, false), ceilingOf(c.limit, true); clients != c.clients || own != c.own {
			t.Errorf("of %d: %d and %d, want %d and %d", c.limit, clients, own, c.clients, c.own)
		}
		if unauthenticated, callers := unauthenticatedOf(c.limit, false), unauthenticatedOf(c.limit, true); unauthenticated != c.unauthenticated || callers != c.callers {
			t.Errorf("of %d: %d and %d outsiders, want %d and %d", c.limit, unauthenticated, callers, c.unauthenticated, c.callers)
		}
	}
}

func TestValidate(t *testing.T) {
	err := (&Config{MaxConnections: -1, MaxUnauthenticated: -2, MaxPerAddress: -3}).Validate()
	for _, name := range []string{"MaxConnections = -1", "MaxUnauthenticated = -2", "MaxPerAddress = -3"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q is missing in %v", name, err)
		}
	}
}
