package workload

import (
	"context"

	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/client"
)

// Class is a kind of client: its protocol, and the nodes whose addresses it knows.
type Class string

// The classes. What knows one node alone waits for it when it is gone.
const (
	GRPCAll Class = "grpc/all"
	AMQPAll Class = "amqp/all"
	GRPCOne Class = "grpc/one"
	AMQPOne Class = "amqp/one"
)

// apart is the class of publishers of this one whose pauses say nothing of a single fault, and why.
func (c Class) apart(why string) string { return string(c) + " " + why }

// The names of protocols, as Kind.Protocols has them.
const (
	overGRPC = "grpc"
	overAMQP = "amqp"
)

// class returns the class of the workload's nth client: all four in turn, or those of gRPC where
// AMQP cannot be reached.
func (w *World) class(n int) Class {
	all := []Class{GRPCAll, AMQPAll, GRPCOne, AMQPOne}
	if !w.hasAMQP() {
		all = []Class{GRPCAll, GRPCOne}
	}
	return all[n%len(all)]
}

// hasAMQP reports whether the harness reaches nodes by AMQP.
func (w *World) hasAMQP() bool {
	for _, n := range w.Cluster.Nodes() {
		if n.AMQP != "" {
			return true
		}
	}
	return false
}

// known returns the nodes that the nth client of a class knows, in the order in which it tries them.
func (w *World) known(c Class, n int) []target.Node {
	nodes := w.Cluster.Nodes()
	first := int((w.Seed + uint64(n)) % uint64(len(nodes)))
	nodes = append(nodes[first:len(nodes):len(nodes)], nodes[:first]...)
	if c == GRPCOne || c == AMQPOne {
		nodes = nodes[:1]
	}
	return nodes
}

// grpc returns the gRPC client of the nth client of a class; it is closed when ctx ends. Those
// that know all nodes share one.
func (w *World) grpc(ctx context.Context, c Class, n int) (*client.Client, error) {
	if c != GRPCOne {
		return w.Client, nil
	}
	own, err := client.New(w.Cluster.Dial(w.known(c, n)[0].ID))
	if err == nil {
		context.AfterFunc(ctx, own.Close)
	}
	return own, err
}

// dialer returns how the nth client of a class of AMQP reaches nodes; nil for classes of gRPC.
func (w *World) dialer(c Class, n int) *dialer {
	if c != AMQPAll && c != AMQPOne {
		return nil
	}
	d := &dialer{vhost: w.VHost, name: string(c)}
	d.user, d.password = w.Cluster.Login()
	for _, node := range w.known(c, n) {
		if node.AMQP != "" {
			d.addresses = append(d.addresses, node.AMQP)
		}
	}
	return d
}
