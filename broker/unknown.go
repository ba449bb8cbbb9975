package broker

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/internal/lograte"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
)

// Limits of the log lines about unknown arguments: programs repeat their declarations again and again.
const (
	// UnknownArgumentLines is how many lines can be written at once. After each UnknownArgumentEvery there can be one
	// more; it has the number of lines that were left out.
	UnknownArgumentLines = 20
	UnknownArgumentEvery = 5 * time.Second
)

// unknownArguments counts and logs unknown arguments (C-9). It may be used concurrently.
type unknownArguments struct {
	count *atomic.Uint64
	log   *slog.Logger
	lines lograte.Lines
}

func newUnknownArguments(count *atomic.Uint64, log *slog.Logger) *unknownArguments {
	return &unknownArguments{count: count, log: log, lines: lograte.Lines{Burst: UnknownArgumentLines, Every: UnknownArgumentEvery}}
}

// of counts the unknown arguments of a declaration, logs them as far as the limits allow, and returns a sentence about
// each (C-9). isNew means that the declaration would create the object; the vhost may refuse that. about names the
// object.
func (u *unknownArguments) of(
	ctx context.Context, v *catalog.View, about failure.Error, args message.Table, found []policy.Unknown, isNew bool,
) (warnings []string, err error) {
	if len(found) == 0 {
		return nil, nil
	}
	refused := isNew && refusesUnknown(v, about.VHost)
	for i := range found {
		x := &found[i]
		u.report(ctx, about, x, refused)
		text := x.Name + " is unknown and has no effect"
		if x.Advice != "" {
			text += "; " + x.Advice
		}
		warnings = append(warnings, text)
	}
	if refused {
		return nil, refusedUnknown(about, args, found)
	}
	return warnings, nil
}

// refusesUnknown reports whether the vhost refuses unknown arguments; a vhost that is gone does not.
func refusesUnknown(v *catalog.View, vhost string) bool {
	h, ok := v.VHost(vhost)
	return ok && h.RefuseUnknown
}

// refusedUnknown returns an error about the first unknown argument, which also names the others.
func refusedUnknown(about failure.Error, args message.Table, found []policy.Unknown) error {
	first := &found[0]
	about.Class, about.Arg, about.Received = failure.PreconditionFailed, first.Name, valueOf(args, first.Name)
	about.Value = about.Received.String()
	about.Reason = "is unknown, and the vhost refuses unknown arguments; "
	if first.Advice == "" {
		about.Reason += "leave it out"
	} else {
		about.Reason += first.Advice
	}
	if len(found) > 1 {
		var others []string
		for i := range found[1:] {
			others = append(others, found[i+1].Name)
		}
		about.Reason += " Also unknown: " + strings.Join(others, ", ")
	}
	return &about
}

// report counts an unknown argument, and logs it if lines allows, because clients may declare in a loop.
func (u *unknownArguments) report(ctx context.Context, about failure.Error, x *policy.Unknown, refused bool) {
	u.count.Add(1)
	skipped, ok := u.lines.Take(time.Now())
	if !ok {
		return
	}
	u.log.WarnContext(ctx, "an argument is unknown and has no effect", slog.String("kind", about.Kind), slog.String("vhost", about.VHost),
		slog.String("name", about.Name), slog.String("argument", x.Name[:min(len(x.Name), message.MaxNameBytes)]),
		slog.String("nearest", x.Nearest), slog.Bool("refused", refused), slog.Uint64("left_out", skipped))
}
