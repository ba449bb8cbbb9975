package page_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What is only asked for has no body, whatever the caller announces: nothing of it is kept, and it is not waited for. The
// HTTP server itself reads and drops 256 KiB at most.
func TestBodyOfUnauthenticated(t *testing.T) {
	s := start(t, 1)
	begun := "Content-Disposition: form-data; name=next\r\n\r\n" + strings.Repeat("x", 300<<10)
	for _, path := range []string{"/ui/login", "/ui/queues", "/ui/static/none"} {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 100000000\r\n\r\n--b\r\n%s", path, begun); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%s waits for the rest of the body: %v", path, err)
		}
		_ = r.Body.Close()
	}
}
