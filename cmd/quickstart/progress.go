package main

import (
	"sync/atomic"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress shows the progress of a long step: a bar on a terminal, otherwise a line at every tenth.
type progress struct {
	s     *show
	name  string
	total int64
	done  atomic.Int64
	bars  *mpb.Progress
	bar   *mpb.Bar
}

const tenths = 10

// progress begins a bar on a terminal; elsewhere there are lines.
func (s *show) progress(name string, total int) *progress {
	p := &progress{s: s, name: name, total: int64(total)}
	if s.cfg.TTY {
		p.bars = mpb.New(mpb.WithOutput(s.cfg.Out), mpb.WithWidth(48))
		p.bar = p.bars.AddBar(p.total,
			mpb.PrependDecorators(decor.Name("   "+name+" "), decor.CountersNoUnit("%d / %d ")),
			mpb.AppendDecorators(decor.Percentage(), decor.Name(" "), decor.AverageSpeed(0, "%.0f/s")))
	}
	return p
}

// step counts one more; it may be called concurrently.
func (p *progress) step() {
	n := p.done.Add(1)
	if p.bar != nil {
		p.bar.Increment()
		return
	}
	if step := max(1, p.total/tenths); n%step == 0 && n <= p.total {
		p.s.say("   %s: %d of %d (%d %%)", p.name, n, p.total, n*100/p.total)
	}
}

// end closes the bar, also an unfinished one.
func (p *progress) end() {
	if p.bar != nil {
		p.bar.Abort(false)
		p.bars.Wait()
	}
}
