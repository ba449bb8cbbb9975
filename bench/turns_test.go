package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/quorate/quorate/bench/peers"
)

// What both builds did in one turn is compared, so that a turn in which the machine was slow says nothing about a build.
func TestTurns(t *testing.T) {
	load := peers.Workload{Size: 12, Queues: 1, Window: 1}
	took := func(cpu float64) turn {
		return turn{{System: "s", Workload: load, CPU: cpu, Consumed: 1, ConfirmP50: 1, ConfirmP99: 1, Costs: peers.Costs{ClientCPU: 1}}}
	}
	var out bytes.Buffer
	if err := printTurns(&out, []turn{took(100), took(300), took(110)}, []turn{took(50), took(150), took(99)}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "servers") {
			if got, want := strings.Join(strings.Fields(line), " "), "0.500 0.500 to 0.900 12 B, 1 queues, window 1 s servers, s/million 110 99.0"; got != want {
				t.Errorf("%s\nwant %s", got, want)
			}
			return
		}
	}
	t.Errorf("no row of the servers: %s", out.String())
}

// A turn that lacks something is not compared.
func TestTurnsThatDiffer(t *testing.T) {
	one := turn{{System: "s"}}
	for name, turns := range map[string][2][]turn{
		"another system": {{one}, {{{System: "t"}}}},
		"nothing":        {{one}, {nil}},
		"fewer turns":    {{one, one}, {one}},
		"none":           {},
	} {
		if err := printTurns(new(bytes.Buffer), turns[0], turns[1]); err == nil {
			t.Errorf("%s: compared", name)
		}
	}
}
