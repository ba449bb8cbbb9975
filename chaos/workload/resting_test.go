package workload

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/chaos/target"
)

// metered is a cluster of nodes that have metrics and nothing else.
type metered struct {
	target.Cluster
	nodes []target.Node
}

func (m *metered) Nodes() []target.Node { return m.nodes }

// The workload says whether queues hibernated, on any node, also if another one does not answer. Where none answers, it says
// that it does not know.
func TestRestingLooks(t *testing.T) {
	for name, test := range map[string]struct {
		hibernated []int // on nodes that answer
		felt       bool
		note       string
	}{
		"some did":       {[]int{0, 3}, true, "up to 3 members"},
		"none did":       {[]int{0, 0}, false, "did not bite"},
		"nobody answers": {nil, false, "not known: "},
	} {
		t.Run(name, func(t *testing.T) {
			publishing, end := context.WithCancel(t.Context())
			defer end()
			c := &metered{nodes: []target.Node{{ID: "away"}}}
			for i, n := range test.hibernated {
				var asked atomic.Int64
				s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if asked.Add(1) > 1 {
						end() // all have answered once
					}
					_, _ = fmt.Fprintf(w, "quorate_queue_members{state=\"awake\"} 9\n%s %d\n", hibernatedMembers, n)
				}))
				t.Cleanup(s.Close)
				c.nodes = append(c.nodes, target.Node{ID: fmt.Sprint("n", i), HTTP: strings.TrimPrefix(s.URL, "http://")})
			}
			if len(test.hibernated) == 0 {
				time.AfterFunc(3*restLook, end)
			}
			w := &World{Cluster: c, History: history.New(), Prefix: "chaos.resting", Log: t.Logf}
			x := &resting{base{World: w}}
			if err := x.look(t.Context(), publishing); err != nil {
				t.Fatal(err)
			}
			events := w.History.Events()
			if len(events) != 1 || events[0].Kind != history.Bit || events[0].Queue != w.Prefix || events[0].Again != test.felt || !strings.HasPrefix(events[0].Note, test.note) {
				t.Errorf("%+v", events)
			}
		})
	}
}
