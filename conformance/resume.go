package conformance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
)

// resumeMessages is how many messages an example for gRPC publishes and consumes. Each time, its
// node is killed after a quarter of them.
const resumeMessages = 20_000

// resumeProgram returns the command line of the gRPC example in a language, python or javascript,
// and the environment that it needs. It generates code into dir.
func resumeProgram(ctx context.Context, language, dir string) (line, env []string, err error) {
	if language == "javascript" {
		_, err := node(ctx, "")
		modules, err2 := filepath.Abs("clients/node/node_modules")
		return []string{"node", "../examples/javascript/resume.js"}, []string{"NODE_PATH=" + modules}, errors.Join(err, err2)
	}
	there := func() bool {
		_, err := exec.LookPath("grpc_python_plugin")
		return err == nil && exec.CommandContext(ctx, debianPython, "-c", "import grpc, google.protobuf").Run() == nil
	}
	if err := apt(ctx, there, "python3-grpcio", "python3-protobuf", "protobuf-compiler", "protobuf-compiler-grpc"); err != nil {
		return nil, nil, err
	}
	plugin, err := exec.LookPath("grpc_python_plugin")
	if err != nil {
		return nil, nil, err
	}
	// Debian has no recent grpc_tools; these commands do the same.
	generate := exec.CommandContext(ctx, "protoc", "-I", "../proto", "--python_out="+dir, "--grpc_python_out="+dir,
		"--plugin=protoc-gen-grpc_python="+plugin, "broker/v1/broker.proto", "broker/v1/admin.proto")
	if out, err := generate.CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("generate code for python: %w: %s", err, out)
	}
	return []string{debianPython, "../examples/python/resume.py"}, []string{"PYTHONPATH=" + dir}, nil
}

// Resume runs the gRPC example in a language over three nodes. It kills the node that the example
// uses while it publishes, and again while it consumes. All messages must be confirmed, each stored
// once, and all consumed (PUB-6, DEL-8). All nodes run again at the end.
func Resume(ctx context.Context, language string, q *Quorate, messages int) (err error) {
	dir, err := os.MkdirTemp("", "resume")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	line, env, err := resumeProgram(ctx, language, dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience())
	defer cancel()
	queue := "resume." + language
	env = append(env, "QUORATE="+strings.Join(q.Cluster.Addresses(), ","))
	for _, step := range []struct {
		do   string
		left uint64 // messages left in the queue
	}{{"publish", uint64(messages)}, {"consume", 0}} {
		args := append(slices.Clone(line), step.do, queue, strconv.Itoa(messages))
		if err := resume(ctx, q, args, env, messages); err != nil {
			return fmt.Errorf("%s: %w", step.do, err)
		}
		if err := q.Cluster.Start(ctx); err != nil {
			return err
		}
		left, err := q.messages(ctx, queue)
		if err != nil {
			return err
		}
		if left != step.left {
			return fmt.Errorf("%s: queue %s has %d messages, want %d", step.do, queue, left, step.left)
		}
	}
	return nil
}

// resume runs the program and kills the node that it uses after a quarter of the messages.
func resume(ctx context.Context, q *Quorate, args, env []string, messages int) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	complaint := &tail{}
	cmd.Env, cmd.Stderr = append(cmd.Environ(), env...), complaint
	out, err := cmd.StdoutPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		return err
	}
	var said []string
	var using, killed string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		if word != "confirmed" && word != "consumed" {
			said = append(said, lines.Text())
		}
		if word == "connected" {
			using = rest
		}
		if n, err := strconv.Atoi(rest); err == nil && n >= messages/4 && killed == "" {
			killed = using
			if err := q.at(using).Kill(); err != nil {
				return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w: it printed %q, %s", err, said, complaint)
	}
	if killed == "" || killed == using || !slices.Contains(said, "lost "+killed) || !slices.Contains(said, "done") {
		return fmt.Errorf("it did not lose a node and continue: it printed %q", said)
	}
	return nil
}

// at returns the node with this client address, which must be one of the cluster's.
func (q *Quorate) at(address string) *chaos.Node {
	return q.Cluster.Nodes[slices.IndexFunc(q.Cluster.Nodes, func(n *chaos.Node) bool { return n.Client == address })]
}

// messages returns the number of a queue's messages in any state.
func (q *Quorate) messages(ctx context.Context, queue string) (uint64, error) {
	c, err := client.Dial(ctx, client.Config{Addresses: q.Cluster.Addresses()})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	x, err := c.GetQueue(ctx, client.QueueRef{VHost: "/", Name: queue})
	return x.Figures().Messages, err
}

// runResume is Resume as a suite.
func runResume(ctx context.Context, y *tally, binary string) error {
	q, err := StartQuorate(ctx, binary, 3, 0)
	if err != nil {
		return err
	}
	for _, language := range []string{"python", "javascript"} {
		y.one("gRPC example in "+language+", its node is killed", Resume(ctx, language, q, resumeMessages))
	}
	return q.Close()
}
