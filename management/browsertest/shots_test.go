package browsertest

import (
	"bytes"
	"context"
	"flag"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/quorate/quorate/client"
)

// shots is where TestShots writes the pictures of docs/management.md.
var shots = flag.String("shots", "", "directory for pictures of the page, after a while with messages; without it they are thrown away")

// The size of the pictures, and how long messages flow before they are taken, for the charts. No result depends on it.
const (
	shotWidth, shotHeight = 1280, 860
	shotHistory           = 40 * time.Second
)

// shot is a picture to take.
type shot struct {
	name, address string
	ready         string // what is true in the page when it can be taken
}

// pictures are those of the guide.
func pictures() []shot {
	const orders = "?vhost=%2F&name=orders"
	return []shot{
		{"overview", "/ui/", `document.querySelectorAll(".chart canvas").length === 5 && ` + tile("Delivered") + ` !== "–"`},
		{"queues", "/ui/queues", names + `.length > 3`},
		{"queue", "/ui/queue" + orders, `document.querySelector(".facts")`},
		{"messages", "/ui/queue/messages?vhost=%2F&name=orders.dead", `document.querySelector("main table tbody tr")`},
		{"explain", "/ui/exchange/explain?vhost=%2F&name=shop&routing_key=order.new", `document.querySelector("#explained table")`},
	}
}

// TestShots takes the pictures of the guide, in both themes, of a cluster through which messages flow. make shots keeps them.
func TestShots(t *testing.T) {
	s := serve(t)
	dir, history := *shots, shotHistory
	if dir == "" {
		dir, history = t.TempDir(), 0
	}
	c := s.dial(t)
	s.furnish(c)
	declare(t, c, "bills", "mails", "orders.eu", "orders.us")
	s.flow(c)
	light, dark := browse(t, s.base), browse(t, s.base)
	for scheme, x := range map[string]*tab{"light": light, "dark": dark} {
		x.prefer(scheme)
		x.call(chromedp.EmulateViewport(shotWidth, shotHeight))
		x.login("guest", "guest")
	}
	time.Sleep(history)
	for _, p := range pictures() {
		for scheme, x := range map[string]*tab{"light": light, "dark": dark} {
			x.open(p.address)
			x.await(p.ready)
			x.shoot(filepath.Join(dir, p.name+"-"+scheme+".png"))
		}
	}
}

// shoot writes what the browser shows.
func (x *tab) shoot(file string) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, patience)
	defer cancel()
	b, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		x.t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		x.t.Fatal(err)
	}
	if size := picture.Bounds().Size(); size != image.Pt(shotWidth, shotHeight) {
		x.t.Errorf("%s has %v", filepath.Base(file), size)
	}
	var small bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, fewColours(picture)); err != nil {
		x.t.Fatal(err)
	}
	if err := os.WriteFile(file, small.Bytes(), 0o644); err != nil {
		x.t.Fatal(err)
	}
}

// fewColours keeps the 256 colours of a picture that are most frequent, which are all but some at the edges of letters.
func fewColours(picture image.Image) *image.Paletted {
	count := map[color.Color]int{}
	bounds := picture.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			count[picture.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] })
	out := image.NewPaletted(bounds, colours[:min(len(colours), 256)])
	nearest := make(map[color.Color]uint8, len(colours))
	for _, c := range colours {
		nearest[c] = uint8(out.Palette.Index(c))
	}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			out.SetColorIndex(x, y, nearest[picture.At(x, y)])
		}
	}
	return out
}

// flow publishes and consumes until the test ends, at a pace that goes up and down.
func (s *served) flow(c *client.Client) {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	s.t.Cleanup(running.Wait)
	s.t.Cleanup(stop)
	for i, queue := range []string{"orders", "bills", "mails", "orders.eu"} {
		p, err := c.Publisher(client.PublisherConfig{})
		if err != nil {
			s.t.Fatal(err)
		}
		running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_ = p.PublishAsync(ctx, client.Message{RoutingKey: queue, Body: []byte(`{"order": 1}`)}, func(client.Result, error) {})
				time.Sleep(time.Duration(2+i+(n/500)%4) * time.Millisecond)
			}
		})
		consumer, err := c.Consume(ctx, client.ConsumeConfig{Queue: queue, Prefetch: 50, Tag: "worker"})
		if err != nil {
			s.t.Fatal(err)
		}
		running.Go(func() {
			_ = consumer.Run(ctx, func(context.Context, *client.Delivery) error { return nil })
		})
	}
}
