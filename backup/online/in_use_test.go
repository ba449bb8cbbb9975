package online

import (
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/quorumq"
)

// The name of a restore says when it began, and Resumable is what queues remember.
func TestRunAge(t *testing.T) {
	if ms := Resumable.Milliseconds(); ms != quorumq.ProducerRetentionMs {
		t.Errorf("resumable for %d ms, queues remember producers for %d ms", ms, quorumq.ProducerRetentionMs)
	}
	now := time.Date(2026, 11, 28, 3, 0, 0, 0, time.FixedZone("", 3600))
	run := NewRun(now)
	if other := NewRun(now); other == run {
		t.Errorf("two restores have the name %s", run)
	}
	for after, known := range map[time.Duration]bool{0: true, 25 * time.Hour: true, -clockTolerance: true, -time.Hour: false} {
		if age, is := RunAge(run, now.Add(after)); is != known || is && age != after {
			t.Errorf("%v after it %s began %v ago, %v", after, run, age, is)
		}
	}
	for _, other := range []string{"", "one", "MZXW6YTBOI-X", "20261128T030000Z", "2026-11-28"} {
		if age, is := RunAge(other, now); is {
			t.Errorf("%q began %v ago", other, age)
		}
	}
}

// Queues that would take messages are in use if they hold some or have consumers, under the names that they have after the
// restore; those of which the copy has nothing are not asked for.
func TestInUse(t *testing.T) {
	x := start(t)
	for _, q := range []string{"full", "consumed", "idle", "nothing"} {
		x.declare(q, nil)
	}
	for _, q := range []string{"full", "consumed", "idle"} {
		x.publish(q, client.Message{})
	}
	l := x.backup("")
	for _, q := range []string{"consumed", "idle"} {
		_, err := x.c.PurgeQueue(x.at, client.QueueRef{Name: q})
		x.must(err)
	}
	s, err := x.c.Consume(x.at, client.ConsumeConfig{Queue: "consumed"})
	x.must(err)
	defer s.Close()
	x.publish("nothing", client.Message{}) // the copy has none
	for what, row := range map[string]struct {
		how  Restore
		want []string
	}{
		"all":                       {Restore{}, []string{`queue "consumed" in vhost "/" has 1 consumers`, `queue "full" in vhost "/" holds 1 messages`}},
		"one":                       {Restore{Queues: []string{"idle"}, VHost: "/"}, nil},
		"another name":              {Restore{Queues: []string{"idle"}, As: "full"}, []string{`queue "full" in vhost "/" holds 1 messages`}},
		"a new name":                {Restore{Queues: []string{"full"}, As: "again"}, nil},
		"a vhost that is not there": {Restore{Into: "nix"}, nil},
	} {
		row.how.Client, row.how.From = x.c, x.open(l)
		got, err := row.how.InUse(x.at)
		x.must(err)
		x.must(row.how.From.Close())
		slices.Sort(got)
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", what, got, row.want)
		}
	}
}
