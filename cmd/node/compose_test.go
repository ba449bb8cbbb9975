package main

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// composeFile is the part of deploy/compose/compose.yaml that concerns nodes.
type composeFile struct {
	Services map[string]struct {
		Command     []string          `yaml:"command"`
		Environment map[string]string `yaml:"environment"`
		Volumes     []string          `yaml:"volumes"`
	} `yaml:"services"`
}

// The nodes of the compose file start with their settings, expect one another, and are what Prometheus asks.
func TestCompose(t *testing.T) {
	var file composeFile
	text, err := os.ReadFile("../../deploy/compose/compose.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for name, s := range file.Services {
		if !slices.Equal(s.Command, []string{"node"}) {
			continue
		}
		nodes = append(nodes, name)
		for key, value := range s.Environment {
			t.Setenv(key, value)
		}
		t.Setenv("QUORATE_DATA_DIR", t.TempDir()) // in place of the volume
		if out, _, err := commandLine(t, "config", "validate"); err != nil || out != "the settings are valid\n" {
			t.Errorf("%s: %v, %s", name, err, out)
		}
		if s.Environment["QUORATE_NODE_ID"] != name || !slices.Contains(s.Volumes, name+":/var/lib/quorate") {
			t.Errorf("%s has the settings of %q and the volumes %v", name, s.Environment["QUORATE_NODE_ID"], s.Volumes)
		}
		for _, other := range strings.Split(s.Environment["QUORATE_CLUSTER__JOIN"], ",") {
			host, _, err := net.SplitHostPort(other)
			if _, is := file.Services[host]; err != nil || !is {
				t.Errorf("%s joins %q, which is no service: %v", name, other, err)
			}
		}
		if want := fmt.Sprint(len(file.Services) - 1); s.Environment["QUORATE_CLUSTER__EXPECT"] != want {
			t.Errorf("%s expects %s nodes, want %s", name, s.Environment["QUORATE_CLUSTER__EXPECT"], want)
		}
	}
	var p struct {
		Scrape []struct {
			Static []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	if text, err = os.ReadFile("../../deploy/compose/prometheus.yaml"); err == nil {
		err = yaml.Unmarshal(text, &p)
	}
	if err != nil || len(p.Scrape) != 2 { // /metrics, and /metrics/queues
		t.Fatal(err, p)
	}
	slices.Sort(nodes)
	for _, job := range p.Scrape {
		var scraped []string
		for _, target := range job.Static[0].Targets {
			scraped = append(scraped, strings.TrimSuffix(target, ":7073"))
		}
		if len(nodes) != 3 || !slices.Equal(nodes, scraped) {
			t.Errorf("nodes %v, of which Prometheus asks %v", nodes, scraped)
		}
	}
}
