package main

import (
	"context"
	"fmt"
	"os"

	"github.com/quorate/quorate/bench/peers"
)

// aim is what a workload may cost, and how fast it must be. A goal of zero is no goal.
type aim struct {
	load                    peers.Workload
	grpc, amqp, client      goal // server processor time over either protocol, and the client's over gRPC: s/million
	rate, p50, p99, declare goal // over gRPC: messages/s, ms, ms, s
	declareAMQP             goal // s
}

// aims are the rows, with the aims that the project has set itself.
func aims() []aim {
	return []aim{
		{load: peers.Workload{Size: 12, Queues: 1, Window: 1000}, grpc: atMost(4), amqp: atMost(6), client: atMost(2.5), rate: atLeast(200_000)},
		{load: peers.Workload{Size: 1024, Queues: 1, Window: 1000}, grpc: atMost(9), amqp: atMost(11), rate: atLeast(100_000)},
		{load: peers.Workload{Size: 16 << 10, Queues: 1, Window: 100}, grpc: atMost(70), rate: atLeast(13_000)},
		{load: peers.Workload{Size: 12, Queues: 1, Window: 1}, grpc: atMost(400), p50: atMost(0.45), p99: atMost(1.5)},
		{load: peers.Workload{Size: 1024, Queues: 1, Window: 1000, Rate: 1000}, p50: atMost(0.6), p99: atMost(2.5)},
		{load: peers.Workload{Size: 1024, Queues: 1, Window: 10, Clients: 100}, grpc: atMost(22)},
		{load: peers.Workload{Size: 1024, Queues: 100, Window: 100}, grpc: atMost(18), rate: atLeast(70_000)},
		{load: peers.Workload{Size: 1024, Queues: 100, Window: 1000}, grpc: atMost(18), rate: atLeast(70_000)},
		{load: peers.Workload{Size: 1024, Queues: 1000, Window: 1000}, grpc: atMost(45), rate: atLeast(30_000), declare: atMost(1.5), declareAMQP: atMost(2)},
	}
}

// aimedLoads returns the workloads of the rows.
func aimedLoads() (all []peers.Workload) {
	for _, a := range aims() {
		all = append(all, a.load)
	}
	return all
}

// runAims measures the rows with nothing else in between, prints the table and stores the rows.
func runAims(ctx context.Context, o options) error {
	m := measurement{title: "What a message costs, three node processes", file: "aims", whole: !o.quick}
	m.parts = []measured{{"aims", func(ctx context.Context) ([]engineRow, error) { return aimRows(ctx, o) }}}
	return m.run(ctx, o)
}

// aimRows measures all workloads over both protocols, and those peers that are asked for.
func aimRows(ctx context.Context, o options) ([]engineRow, error) {
	c := peers.Config{Binary: o.binary, RabbitMQ: o.rabbitmq, NATS: o.nats, Only: "native,quorate", Time: o.peersTime, Log: os.Stderr, Stuck: o.results}
	if o.rabbitmq != "" {
		c.Only += ",rabbitmq"
	}
	if o.nats != "" {
		c.Only += ",nats"
	}
	if o.quick {
		c.Time = quickTime
	}
	c.Exactly = aimedLoads()
	report, err := peers.Run(ctx, c)
	if report == nil {
		return nil, err
	}
	var rows []engineRow
	for _, a := range aims() {
		for i, s := range report.Systems {
			for _, f := range report.Figures {
				if f.System == s.Name && f.Workload == a.load {
					rows = append(rows, a.rows(f, i)...)
				}
			}
		}
	}
	return rows, err
}

// Systems in the order in which aimRows measures them; what comes behind has no aims.
const overGRPC, overAMQP = 0, 1

// rows are the figures of one system under the workload.
func (a aim) rows(f peers.Figures, system int) []engineRow {
	none := goal{}
	cpu, client, rate, p50, p99, declare := none, none, none, none, none, none
	switch system {
	case overGRPC:
		cpu, client, rate, p50, p99, declare = a.grpc, a.client, a.rate, a.p50, a.p99, a.declare
	case overAMQP:
		cpu, declare = a.amqp, a.declareAMQP
	}
	name := func(what string) string { return fmt.Sprintf("%s, %s: %s", f.Workload, f.System, what) }
	if f.Error != "" {
		return []engineRow{cpu.absent(name("servers' processor time"), "s/million", failed)}
	}
	rows := []engineRow{
		cpu.row(name("servers' processor time"), "s/million", f.CPU),
		client.row(name("client's processor time"), "s/million", f.ClientCPU),
		rate.row(name("rate"), "messages/s", f.Consumed),
		p50.row(name("confirm p50"), "ms", f.ConfirmP50),
		p99.row(name("confirm p99"), "ms", f.ConfirmP99),
	}
	if a.declare != none {
		rows = append(rows, declare.row(name("declare the queues, nine at a time"), "s", f.Declared))
	}
	return rows
}
