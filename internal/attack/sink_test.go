//go:build linux

package attack

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/chaos"
)

// The sink is a process of its own, as the steady publisher is: a server that takes calls as a node does, and does nothing with
// them. What an attack on it costs the publishers of a node is the attacker's own use of the machine.
const sinkVariable = "ATTACK_SINK"

const (
	// sinkMessages is how many messages the sink takes at a time: of 8 MiB, as many as fit into a connection's share of a node's
	// budget.
	sinkMessages = 8
	// sinkReads is how much of them it reads at a time.
	sinkReads = 32 << 10
)

// discard serves until stdin ends. It writes its address first.
func discard() error {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it ends with the process
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(os.Stdout, l.Addr())
	room := make(chan struct{}, sinkMessages)
	s := grpc.NewServer(grpc.InitialWindowSize(64<<10), grpc.InitialConnWindowSize(4<<20),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error { return discardCall(stream, room) }))
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		s.Stop()
	}()
	return s.Serve(l)
}

// discardCall refuses a call without credentials, and discards what another one sends.
func discardCall(stream grpc.ServerStream, room chan struct{}) error {
	ctx := stream.Context()
	if given := metadata.ValueFromIncomingContext(ctx, "authorization"); len(given) == 0 || given[0] == "" {
		return status.Error(codes.Unauthenticated, "no")
	}
	select {
	case room <- struct{}{}:
		defer func() { <-room }()
	case <-ctx.Done():
		return ctx.Err()
	}
	raw, ok := grpc.ServerTransportStreamFromContext(ctx).(interface {
		ReadMessageHeader(head []byte) error
		Read(n int) (mem.BufferSlice, error)
	})
	if !ok {
		return status.Error(codes.Internal, "gRPC does not show the bytes of calls")
	}
	head := make([]byte, 5)
	if err := raw.ReadMessageHeader(head); err != nil {
		return err
	}
	for left := int(binary.BigEndian.Uint32(head[1:])); left > 0; {
		data, err := raw.Read(min(left, sinkReads))
		if err != nil {
			return err
		}
		left -= data.Len()
		data.Free()
	}
	<-ctx.Done()
	return ctx.Err()
}

// sink starts the sink, which runs until the test's end, and returns it as if it were a node.
func (v *victim) sink() *victim {
	v.Helper()
	self, err := os.Executable()
	if err != nil {
		v.Fatal(err)
	}
	cmd := exec.CommandContext(v.Context(), self)
	cmd.Env = append(os.Environ(), sinkVariable+"=yes")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		v.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		v.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		v.Fatal(err)
	}
	v.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // calls that go on are cut off
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		v.Fatal(err)
	}
	return &victim{v.T, &chaos.Node{Client: strings.TrimSpace(address)}}
}
