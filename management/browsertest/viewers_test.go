package browsertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"

	"github.com/quorate/quorate/management/stats"
)

// view does what a tab with the overview does: it asks for the page, then for the live feed, and hands over the time of each
// sample until that is no more wanted.
func (s *served) view(ctx context.Context, browser *http.Client, wanted func(at int64) bool) error {
	shown, err := open(ctx, browser, s.base+"/ui/")
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, shown)
	_ = shown.Close()
	if err != nil {
		return err
	}
	feed, err := open(ctx, browser, s.base+"/ui/feed/live")
	if err != nil {
		return err
	}
	defer func() { _ = feed.Close() }()
	lines := bufio.NewScanner(feed)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		at, is := strings.CutPrefix(lines.Text(), `data: {"at":`)
		if !is { // history, which is a list, and what frames it
			continue
		}
		at, _, _ = strings.Cut(at, ",")
		ms, err := strconv.ParseInt(at, 10, 64)
		if err != nil || !wanted(ms) {
			return err
		}
	}
	return errors.Join(lines.Err(), io.ErrUnexpectedEOF)
}

// open asks for an address. The caller closes the body.
func open(ctx context.Context, browser *http.Client, address string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	answer, err := browser.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s: %s", address, answer.Status), answer.Body.Close())
	}
	return answer.Body, nil
}

// Fifty viewers of the overview see the same samples, and what is asked of the nodes does not grow with them: neither by
// the pages that they open nor by what those ask for then.
func TestViewersShare(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	asked := countQuestions(t)
	s := start(t)
	const viewers, samples = 50, 6
	var mu sync.Mutex
	seen := map[int64]int{} // viewers of each sample, by its time
	var all sync.WaitGroup
	browser := s.enter(t)
	before, begun := asked.all(), time.Now()
	for range viewers {
		all.Go(func() {
			n := 0
			if err := s.view(t.Context(), browser, func(at int64) bool {
				mu.Lock()
				defer mu.Unlock()
				seen[at]++
				n++
				return n < samples
			}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	took := time.Since(begun)
	total := 0
	for _, n := range seen {
		total += n
	}
	if total != viewers*samples || len(seen) > viewers*samples/4 { // all began at one time, but for what a busy machine delays
		t.Errorf("%d viewers saw %d samples, of which %d are different", viewers, total, len(seen))
	}
	now := asked.since(before)
	t.Logf("in %v the nodes were asked %v", took, now)
	for call, every := range map[string]time.Duration{"NodeStatus": stats.SampleEvery, "ListConnections": stats.FreshFor, "LedFigures": stats.FreshFor} {
		const others = 2 // nodes that one asks
		if most := others * (int(took/every) + 2); now[call] == 0 || now[call] > most {
			t.Errorf("%d viewers had the nodes asked %d times by %s within %v; want 1 to %d", viewers, now[call], call, took, most)
		}
	}
}

// A tab with the overview asks for nothing but its feed once it is open.
func TestOverviewAsksOnce(t *testing.T) {
	s := serve(t)
	x := browse(t, s.base)
	x.login("guest", "guest")
	x.call(command(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: handTimers}))
	x.open("/ui/")
	x.await(`document.querySelectorAll(".chart canvas").length === 5`)
	before := s.asks("/ui/")
	x.tick()
	x.open("/ui/queues") // whatever was asked for by then has arrived
	if now := s.asks("/ui/"); now != before {
		t.Errorf("the overview was asked for %d times more", now-before)
	}
	if n := s.asks("/ui/feed/live"); n == 0 {
		t.Error("the feed was not asked for")
	}
}
