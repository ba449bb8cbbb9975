package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/quorate/quorate/internal/testcluster"
)

// What `make management-test` sets: the paths of the browser and of axe-core's script.
const (
	chromiumEnv = "QUORATE_CHROMIUM"
	axeEnv      = "QUORATE_AXE"
)

// patience bounds one step in the browser, on a machine that does much else.
const patience = time.Minute

// pollEvery is how long a test waits before it asks the page once more.
const pollEvery = 20 * time.Millisecond

// needBrowser skips the test where make has not said which browser there is.
func needBrowser(t testing.TB) {
	t.Helper()
	if os.Getenv(chromiumEnv) == "" || os.Getenv(axeEnv) == "" {
		t.Skip("make management-test opens the page in chromium")
	}
	for _, name := range []string{chromiumEnv, axeEnv} {
		if _, err := os.Stat(os.Getenv(name)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// tab is a tab of a browser that has a profile of its own. It belongs to the test's goroutine.
type tab struct {
	t     testing.TB
	ctx   context.Context
	base  string
	found *troubles
}

// browse starts a browser. It ends with the test, and what the browser has complained about by then fails the test.
func browse(t testing.TB, base string) *tab {
	t.Helper()
	ctx, end := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(os.Getenv(chromiumEnv)), chromedp.UserDataDir(profile(t)), chromedp.WindowSize(1280, 900),
		chromedp.Flag("headless", true), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true),
	)
	found := newTroubles()
	ctx, endTab := chromedp.NewContext(ctx, chromedp.WithListener(found.listen))
	t.Cleanup(end)
	t.Cleanup(endTab)
	x := &tab{t: t, ctx: ctx, base: base, found: found}
	if err := chromedp.Do(ctx); err != nil { // starts the browser, which lives as long as ctx
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, what := range found.all() {
			t.Error(what)
		}
		if t.Failed() {
			t.Log(x.describe())
		}
	})
	x.call(command(audits.Enable, cdp.Empty{}))
	return x
}

// profile is a directory for a browser's profile. Processes of a browser write to it for a moment after the browser has
// ended.
func profile(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "quorate-browser-") //nolint:usetesting // T.TempDir fails a test while something is written there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		testcluster.Poll(t, "the browser's profile is removed", func() error { return os.RemoveAll(dir) })
	})
	return dir
}

// command is a step that sends the browser a command.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, to *chromedp.Target) error {
		_, err := cdp.Call(ctx, to, c, params)
		return err
	})
}

// call has the browser do something.
func (x *tab) call(step chromedp.Action[chromedp.Void]) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, patience)
	defer cancel()
	for {
		err := chromedp.Do(ctx, step)
		if err == nil {
			return
		}
		if !replaced(err) {
			x.fail("the browser could not do a step: %v", err)
		}
	}
}

// replaced says whether a step failed because the page put a new element in the place of the one that the step had
// found, before it did anything with it. A list does so every two seconds.
func replaced(err error) bool {
	e, is := errors.AsType[*cdproto.Error](err)
	return is && slices.Contains([]string{
		"Could not find node with given id", "Node is detached from document", "Node does not have a layout object", "Could not compute content quads.",
	}, e.Message)
}

// fail ends the test with where the tab is besides.
func (x *tab) fail(format string, args ...any) {
	x.t.Helper()
	x.t.Fatalf(format+"\n%s", append(args, x.describe())...)
}

// shownText bounds, in characters, how much of a page's text a test that fails shows.
const shownText = 1500

// describe says where the tab is, for a test that fails: the address, the beginning of the text, and the console.
func (x *tab) describe() string {
	ctx, cancel := context.WithTimeout(x.ctx, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf(
		`location.href + " says:\n" + (document.querySelector("main") ?? document.body).innerText.slice(0, %d)`, shownText)))
	if err != nil {
		text = "a page that does not answer: " + err.Error()
	}
	return "the tab is at " + text + "\non its console:\n" + strings.Join(x.found.lines(), "\n")
}

// ask evaluates an expression in the page.
func ask[T any](x *tab, expression string) T {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		x.fail("the page was asked %s: %v", expression, err)
	}
	return v
}

// errNotSo says that an expression is false in the page.
var errNotSo = errors.New("it is false")

// await waits until an expression is true in the page, or in the one that comes next.
func (x *tab) await(expression string) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, patience)
	defer cancel()
	for last := errNotSo; ; {
		// An expression about a page that is going away fails, and is about the next one then.
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`Boolean(`+expression+`)`))
		switch {
		case err == nil && is:
			return
		case err == nil:
			last = errNotSo
		case ctx.Err() == nil:
			last = err
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			x.fail("this was not so within %v: %s: %v", patience, expression, last)
		}
	}
}

// open opens an address of the page.
func (x *tab) open(path string) {
	x.t.Helper()
	x.call(chromedp.Navigate(x.base + path))
}

// login logs in through the form.
func (x *tab) login(user, password string) {
	x.t.Helper()
	x.open("/ui/login")
	x.fill("#user", user)
	x.fill("#password", password)
	x.click("button.main")
	x.await(`location.pathname === "/ui/" && document.readyState === "complete"`)
}

// fill replaces what a field has by what a user types.
func (x *tab) fill(selector, text string) {
	x.t.Helper()
	x.call(chromedp.Focus(chromedp.CSS(selector)))
	x.call(chromedp.Evaluate[chromedp.Void](`document.activeElement.select()`))
	x.call(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// click clicks on an element.
func (x *tab) click(selector string) {
	x.t.Helper()
	x.call(chromedp.Click(chromedp.CSS(selector)))
}

// keys types keys, wherever the page's focus is, when its scripts are there to see them. As a keyboard does, and unlike
// chromedp, a key that a script takes for itself writes nothing.
func (x *tab) keys(text string) {
	x.t.Helper()
	x.await(`document.readyState === "complete"`)
	for _, r := range text {
		events := kb.Encode(r)
		if len(events) == 3 { // down, the character, up
			events[0].Text, events[0].UnmodifiedText = events[1].Text, events[1].UnmodifiedText
			events = slices.Delete(events, 1, 2)
		}
		for _, e := range events {
			x.call(command(input.DispatchKeyEvent, *e))
		}
	}
}

// prefer makes the browser one of a user who prefers a scheme of colours.
func (x *tab) prefer(scheme string) {
	x.t.Helper()
	x.call(command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}))
}
