package amqp

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/quorate/quorate/amqp/wire"
)

// Bodies arrive the same whether they are copied or sent from where they are, in whatever pieces they are written, and the
// memory of a step has nothing of the step before.
func TestOutput(t *testing.T) {
	large := bytes.Repeat([]byte("large"), 50_000)
	bodies := [][]byte{nil, []byte("small"), large, large[:sharedBody], large[:sharedBody-1], large, large, []byte("small")}
	for name, write := range map[string]func(o *output, c *conn, parts *[][]byte, most int) (int, error){
		"gathered": (*output).write,
		"joined": func(o *output, c *conn, parts *[][]byte, _ int) (int, error) {
			o.unit, *parts = append(o.unit[:0], *parts...), nil
			return o.writeJoined(c)
		},
	} {
		for _, frameMax := range []uint32{0, 4096, 8192, 128 << 10} {
			for _, most := range []int{1000, 64 << 10, 10 << 20} {
				ours, theirs := net.Pipe()
				got := make(chan []byte)
				go func() {
					all, _ := io.ReadAll(theirs)
					got <- all
				}()
				c, o := &conn{s: &Server{}, nc: ours}, output{}
				var want []byte
				for step := range 3 {
					before := len(want)
					o.begin(c.s)
					for _, body := range bodies[step:] {
						o.body(7, body, frameMax)
						want = wire.AppendBody(want, 7, body, frameMax)
					}
					if o.size() != len(want)-before {
						t.Errorf("%s: %d bytes to send, want %d", name, o.size(), len(want)-before)
					}
					for parts := o.parts(); len(parts) > 0; {
						n, err := write(&o, c, &parts, most)
						if err != nil || n == 0 || n > most && name == "gathered" {
							t.Fatalf("%s: wrote %d bytes of at most %d: %v", name, n, most, err)
						}
					}
					o.end(c.s)
				}
				_ = ours.Close()
				if all := <-got; !bytes.Equal(all, want) {
					t.Errorf("%s, frames of %d, pieces of %d: %d bytes came, want %d, or others", name, frameMax, most, len(all), len(want))
				}
			}
		}
	}
}

// A large body is not copied, and a connection that sends nothing keeps no memory.
func TestOutputKeepsNothing(t *testing.T) {
	s, o, body := &Server{}, output{}, make([]byte, sharedBody)
	o.begin(s)
	o.body(1, body, 0)
	if parts := o.parts(); len(parts) != 3 || &parts[1][0] != &body[0] || len(o.buf) != wire.FrameOverhead {
		t.Errorf("%d parts, %d bytes copied", len(parts), len(o.buf))
	}
	o.end(s)
	if o.buf != nil || o.lent != nil || o.size() != 0 {
		t.Errorf("%d bytes are left", o.size())
	}
	for _, p := range o.all[:cap(o.all)] {
		if p != nil {
			t.Error("a body is still referred to")
		}
	}
}
