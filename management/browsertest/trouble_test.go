package browsertest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/quorate/quorate/internal/testcluster"
)

// keptLines bounds the lines of the console that a test that fails shows.
const keptLines = 30

// troubles collects what the browser complains about: errors in scripts and on the console, requests that failed, what
// the content security policy stopped, and dialogs, which the page never opens.
type troubles struct {
	mu       sync.Mutex
	found    []string
	expected []int64                      // codes of answers that are no trouble
	page     string                       // the address that the tab shows
	asked    map[network.RequestID]string // the addresses of requests under way
	console  []string                     // the newest lines, whatever their level
}

func newTroubles() *troubles { return &troubles{asked: map[network.RequestID]string{}} }

// lines returns the newest lines of the console.
func (s *troubles) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.console)
}

// expect allows answers with an error's code from now on.
func (s *troubles) expect(codes ...int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expected = codes
}

// all returns what was found.
func (s *troubles) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.found)
}

// listen takes an event of the browser, on the goroutine that reads them.
func (s *troubles) listen(event any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if line := written(event); line != "" {
		s.console = append(s.console, line)
		s.console = s.console[max(0, len(s.console)-keptLines):]
	}
	if what := s.judge(event); what != "" {
		s.found = append(s.found, what+" (the tab was at "+s.page+")")
	}
	s.follow(event)
}

// follow notes where the tab is, and what it asks for.
func (s *troubles) follow(event any) {
	switch e := event.(type) {
	case *page.EventFrameNavigated:
		if e.Frame.ParentID == "" {
			s.page = e.Frame.URL
		}
	case *network.EventRequestWillBeSent:
		s.asked[e.RequestID] = e.Request.URL
	case *network.EventLoadingFinished:
		delete(s.asked, e.RequestID)
	case *network.EventLoadingFailed:
		delete(s.asked, e.RequestID)
	}
}

// written is a line of the console, of any level; "": the event is none.
func written(event any) string {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		return "exception: " + thrown(e.ExceptionDetails)
	case *runtime.EventConsoleAPICalled:
		return string(e.Type) + ": " + said(e.Args)
	case *log.EventEntryAdded:
		return fmt.Sprintf("%s: %s %s: %s", e.Entry.Level, e.Entry.Source, e.Entry.URL, e.Entry.Text)
	}
	return ""
}

// judge says what is wrong; "": nothing.
func (s *troubles) judge(event any) string {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		return "a script failed: " + thrown(e.ExceptionDetails)
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" || e.Type == "assert" {
			return "on the console: " + said(e.Args)
		}
	case *log.EventEntryAdded:
		// Failed requests are judged below, where their codes are.
		if e.Entry.Source != "network" && (e.Entry.Level == "error" || e.Entry.Level == "warning") {
			return fmt.Sprintf("the browser logs: %s %s: %s", e.Entry.Source, e.Entry.URL, e.Entry.Text)
		}
	case *network.EventResponseReceived:
		if code := e.Response.Status; code >= 400 && !slices.Contains(s.expected, code) {
			return fmt.Sprintf("%s was answered with %d", e.Response.URL, code)
		}
	case *network.EventLoadingFailed:
		// A page that is left takes its requests with it.
		if !e.Canceled && e.ErrorText != "net::ERR_ABORTED" {
			return fmt.Sprintf("a request failed: %s: %s %s", s.asked[e.RequestID], e.ErrorText, e.BlockedReason)
		}
	case *audits.EventIssueAdded:
		return issue(e.Issue)
	case *page.EventJavascriptDialogOpening:
		return "a dialog opened: " + e.Message
	}
	return ""
}

// issue describes what the browser advises against. How fast a page is on a busy machine is no fault of the page.
func issue(i *audits.InspectorIssue) string {
	if i.Code == audits.InspectorIssueCodePerformanceIssue {
		return ""
	}
	details, err := json.Marshal(i.Details)
	return fmt.Sprintf("the browser has an issue: %s %s %v", i.Code, details, err)
}

// thrown describes an exception.
func thrown(d *runtime.ExceptionDetails) string {
	text := d.Text
	if d.Exception != nil {
		text += " " + d.Exception.Description
	}
	return fmt.Sprintf("%s at %s:%d", text, d.URL, d.LineNumber+1)
}

// said is what was written to the console.
func said(args []*runtime.RemoteObject) (text string) {
	for _, a := range args {
		text += string(a.Value) + a.Description + " "
	}
	return text
}

// awaits waits until all texts are in what was found.
func (s *troubles) awaits(t *testing.T, texts []string) {
	t.Helper()
	testcluster.Poll(t, "the browser complains", func() error {
		all := strings.Join(s.all(), "\n")
		for _, text := range texts {
			if !strings.Contains(all, text) {
				return fmt.Errorf("%q is not in\n%s", text, all)
			}
		}
		return nil
	})
}

// forget drops what was found.
func (s *troubles) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found = nil
}
