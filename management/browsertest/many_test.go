//go:build linux

package browsertest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cluster/vitals"
	"github.com/quorate/quorate/internal/testcluster"
)

// serveMany starts a cluster with many queues, and returns a client of it and one of its page that has logged in.
func serveMany(b *testing.B) (s *served, c *client.Client, x *http.Client) {
	b.Helper()
	names := manyNames(b)
	s = &served{cluster: testcluster.StartMany(b, 3, 5*time.Second), asked: map[string]int{}}
	s.base = s.handle(b)
	c, err := client.Dial(b.Context(), client.Config{Addresses: s.cluster.Addrs(), ProbeTimeout: time.Minute, CallTimeout: 10 * time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	begin := time.Now()
	for part := range slices.Chunk(names, 1000) {
		importQueues(b, c, part)
	}
	b.Logf("%d queues were declared in %.1f s", len(names), time.Since(begin).Seconds())
	return s, c, s.enter(b)
}

// manyNames are the names of the queues of the benchmarks.
func manyNames(b *testing.B) []string {
	names := make([]string, testcluster.ManyQueues(b))
	for i := range names {
		names[i] = fmt.Sprintf("orders.%05d", i)
	}
	return names
}

// BenchmarkListOfMany measures the list of many queues as the server answers: with figures that are there, in several
// orders, and when those of all queues are asked of all nodes anew. It needs no browser.
func BenchmarkListOfMany(b *testing.B) {
	s, c, x := serveMany(b)
	for b.Loop() {
		s.measureServer(b, x)
		s.measureAnew(b, c, x)
	}
}

// BenchmarkManyQueues measures the list of many queues, as the server answers and as a browser shows it, and what viewers of
// the live overview cost all three nodes, which are of this process. It fails if an aim of docs/management.md is missed.
func BenchmarkManyQueues(b *testing.B) {
	needBrowser(b)
	s, _, x := serveMany(b)
	for b.Loop() {
		s.measureServer(b, x)
		s.measureBrowser(b)
		s.measureViewers(b, x)
	}
}

// report reports the median and the longest of some times of the list.
func report(b *testing.B, name string, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	median, longest := took[len(took)/2], took[len(took)-1]
	b.ReportMetric(float64(median.Microseconds())/1000, name+"-ms")
	b.ReportMetric(float64(longest.Microseconds())/1000, name+"-max-ms")
	if median > maxListTime {
		b.Errorf("%s takes %v, the median of %d; the aim is %v", name, median, len(took), maxListTime)
	}
	b.Logf("%s: shortest %v, median %v, longest %v", name, took[0].Round(10*time.Microsecond), median.Round(10*time.Microsecond), longest.Round(10*time.Microsecond))
}

// measureServer asks for lists in several orders. The requests are spread over the time for which figures are fresh, so
// that some of them pay for new ones.
func (s *served) measureServer(b *testing.B, x *http.Client) {
	for name, query := range map[string]string{
		"list": "", "sorted": "?sort=messages_ready&sort_reverse=true", "filtered": "?name=7&sort=name&sort_reverse=true", "pattern": "?name=7$&use_regex=true",
		"rates": "?sort=message_stats.publish_details.rate", "policies": "?sort=policy",
	} {
		var took []time.Duration
		var used time.Duration
		const requests = 30
		for range requests {
			before := vitals.ProcessorTime()
			took = append(took, s.list(b, x, query))
			used += vitals.ProcessorTime() - before
			time.Sleep(100 * time.Millisecond)
		}
		b.ReportMetric(float64(used.Microseconds())/requests/1000, name+"-cpu-ms")
		report(b, name, took)
	}
}

// list asks for a list of queues, and returns how long that took.
func (s *served) list(b *testing.B, x *http.Client, query string) time.Duration {
	b.Helper()
	begin := time.Now()
	answer, err := send(b, x, http.MethodGet, s.base+"/ui/queues"+query, nil)
	if err != nil {
		b.Fatal(err)
	}
	size, err := io.Copy(io.Discard, answer.Body)
	if err := answer.Body.Close(); err != nil {
		b.Fatal(err)
	}
	if err != nil || answer.StatusCode != http.StatusOK || size == 0 {
		b.Fatal(answer.Status, err)
	}
	return time.Since(begin)
}

// staleAfter is for how long the figures and rates of a list are fresh.
const staleAfter = 5 * time.Second

// measureAnew asks for the list when no figures are fresh, and one queue in a hundred was used meanwhile.
func (s *served) measureAnew(b *testing.B, c *client.Client, x *http.Client) {
	names := manyNames(b)
	var took []time.Duration
	for range 4 {
		for i := 0; i < len(names); i += 100 {
			if _, err := c.PublishOne(b.Context(), client.Message{RoutingKey: names[i]}); err != nil {
				b.Fatal(err)
			}
		}
		time.Sleep(staleAfter)
		took = append(took, s.list(b, x, ""))
	}
	report(b, "anew", took)
}

// measureBrowser opens the list, and refreshes it in place.
func (s *served) measureBrowser(b *testing.B) {
	x := browse(b, s.base)
	x.login("guest", "guest")
	var loads, refreshes []time.Duration
	for range 10 {
		x.open("/ui/queues")
		x.await(`document.readyState === "complete"`)
		loads = append(loads, milliseconds(ask[float64](x, `performance.getEntriesByType("navigation")[0].duration`)))
	}
	x.click("#live") // the refreshes are the benchmark's
	for range 10 {
		refreshes = append(refreshes, milliseconds(ask[float64](x, `new Promise((done) => {
			const begin = performance.now();
			document.addEventListener("htmx:after:swap", () => requestAnimationFrame(() => done(performance.now() - begin)), {once: true});
			document.body.dispatchEvent(new CustomEvent("refresh"));
		})`)))
	}
	report(b, "browser-load", loads)
	report(b, "browser-refresh", refreshes)
	x.call(chromedp.Navigate("about:blank"))
}

// milliseconds is a time that a browser has measured.
func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// viewerSamples is for how many samples, which are a second apart, viewers are measured.
const viewerSamples = 20

// The aims of docs/management.md.
const (
	maxListTime    = 300 * time.Millisecond // the median time of a list
	maxViewerShare = 2                      // percent of a core, over all nodes, for each viewer
)

// manyViewers is how many look at the overview at the same time in the end.
const manyViewers = 50

// measureViewers compares the processor time of all nodes with and without viewers of the overview: a tab of a real browser,
// which is not of this process, and then many that ask for what a tab asks for, whose own part in reading the answers counts
// too.
func (s *served) measureViewers(b *testing.B, x *http.Client) {
	measure := func(viewers string, n float64, idle float64) float64 {
		begin, before := time.Now(), vitals.ProcessorTime()
		time.Sleep(viewerSamples * time.Second)
		share := 100*(vitals.ProcessorTime()-before).Seconds()/time.Since(begin).Seconds() - idle
		b.Logf("%s: %.2f %% of a core, %.2f %% for each", viewers, share, share/n)
		return share / n
	}
	idle := measure("three nodes without a viewer", 1, 0)
	judge := func(name string, share float64) {
		b.ReportMetric(share, name+"-%core")
		if share > maxViewerShare {
			b.Errorf("%s: each costs %.2f %% of a core; the aim is %d %%", name, share, maxViewerShare)
		}
	}
	tab := browse(b, s.base)
	tab.login("guest", "guest")
	tab.await(`document.querySelectorAll(".chart canvas").length === 5`)
	judge("viewer", measure("a viewer", 1, idle))
	tab.call(chromedp.Navigate("about:blank"))

	ctx, leave := context.WithCancel(b.Context())
	var all, first sync.WaitGroup
	for range manyViewers {
		first.Add(1)
		all.Go(func() {
			begun := sync.OnceFunc(first.Done)
			defer begun()
			if err := s.view(ctx, x, func(int64) bool { begun(); return true }); err != nil && ctx.Err() == nil {
				b.Error(err)
			}
		})
	}
	first.Wait() // what the first sample costs, the following do not
	judge("50-viewers", measure("50 viewers", manyViewers, idle))
	leave()
	all.Wait()
}
