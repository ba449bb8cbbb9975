package rest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/management/rest"
)

// A document may be larger than other bodies, and only so many are taken at the same time: while
// two clients still send theirs, a third is refused.
func TestLargeDocuments(t *testing.T) {
	a, _ := one(t)
	large := `{"rabbit_version":"` + strings.Repeat("1", 2*rest.MaxBodyBytes) + `"}`
	answers := make(chan int, 2)
	var senders []*io.PipeWriter
	for range 2 {
		body, sender := io.Pipe()
		senders = append(senders, sender)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.base+"/api/definitions", body)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("guest", "guest")
		go func() {
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				answers <- 0
				return
			}
			_ = answer.Body.Close() // only the code counts
			answers <- answer.StatusCode
		}()
		if _, err := sender.Write([]byte(large[:rest.MaxBodyBytes])); err != nil {
			t.Fatal(err)
		}
	}
	testcluster.Poll(t, "the node reads both", func() error {
		if code, _, text := a.ask("", "POST /api/definitions", `{}`); code != http.StatusServiceUnavailable || !strings.Contains(text, "this node imports 2 documents already") {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	})
	a.run([]row{{do: "GET /api/definitions", code: 200}})
	for _, s := range senders {
		if _, err := s.Write([]byte(large[rest.MaxBodyBytes:])); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range senders {
		if code := <-answers; code != http.StatusOK {
			t.Errorf("%d", code)
		}
	}
	a.run([]row{{do: "POST /api/definitions", body: `{}`, code: 200, want: has(`"total":0`)}})
}

// An answer names what is made only if it is asked to.
func TestCreatedObjects(t *testing.T) {
	a, _ := one(t)
	const document = `{"queues":[{"name":"made","vhost":"/","durable":true,"arguments":{"x-queue-type":"quorum"}}]}`
	a.run([]row{
		{do: "POST /api/definitions?dry_run=true", body: document, code: 200, want: has(`"created":1`, `"objects":[]`)},
		{do: "POST /api/definitions?dry_run=true&created=true", body: document, code: 200, want: has(`"name":"made"`, `"outcome":"created"`, `"path":"$.queues[0]"`)},
		{do: "GET /api/queues/%2F/made", code: 404},
	})
}
