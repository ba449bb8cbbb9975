// Command quorate has Telegraf's plugin for RabbitMQ gather what a node has, once for each line that it reads, and writes what
// it found as JSON. Its argument is the URL of the node. It is built inside Telegraf's module.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/plugins/inputs"
	"github.com/influxdata/telegraf/plugins/inputs/rabbitmq"
)

// answer is what the plugin found.
type answer struct {
	Metrics []metric `json:"metrics"`
	Errors  []string `json:"errors"`
}

type metric struct {
	Name   string            `json:"name"`
	Tags   map[string]string `json:"tags"`
	Fields map[string]any    `json:"fields"`
}

// gatherer keeps what the plugin adds. The plugin calls nothing else of an accumulator.
type gatherer struct {
	telegraf.Accumulator
	mu sync.Mutex
	answer
}

// quiet is a log for what the plugin writes, which is that it asks.
type quiet struct{ telegraf.Logger }

func (quiet) Debugf(string, ...any) {}

func main() {
	if err := gatherAgain(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// gatherAgain makes the plugin as a configuration that has only a URL would.
func gatherAgain(url string) error {
	p, is := inputs.Inputs["rabbitmq"]().(*rabbitmq.RabbitMQ)
	if !is {
		return errors.New("the plugin is of another type")
	}
	p.URL, p.Log = url, quiet{}
	if err := p.Init(); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var g gatherer
		if err := p.Gather(&g); err != nil {
			return err
		}
		if err := out.Encode(g.answer); err != nil {
			return err
		}
	}
	return nil
}

// AddFields keeps copies: the plugin may use its maps again.
func (g *gatherer) AddFields(name string, fields map[string]any, tags map[string]string, _ ...time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Metrics = append(g.Metrics, metric{Name: name, Tags: maps.Clone(tags), Fields: maps.Clone(fields)})
}

// AddError keeps the text.
func (g *gatherer) AddError(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Errors = append(g.Errors, err.Error())
}
