package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/quorate/quorate/client"
)

// Library is a Go library whose own tests run against a node. No module of this project requires
// it: it is fetched into a directory of its own, where its own go.mod applies, and removed
// afterwards.
type Library struct {
	Name, Module, Version string
	Package               string // of the tests, relative to the module
	// Variable is the environment variable with the broker's address for the tests. If File has a
	// fixed address instead, Fixed, it is replaced by the node's.
	Variable, File, Fixed string
	Classic               bool // durable queues must be classic ones, as they are in RabbitMQ
	// Tags of the long form, and the program with which its tests restart their broker.
	Tags, Restarts string
	Least          int // least number of tests
	// Prepare changes the copy in a directory before anything is built of it; nil: nothing is changed.
	Prepare func(dir string) error
}

// Libraries returns all libraries. Their versions are only here.
func Libraries() []Library {
	return []Library{
		{
			Name: "watermill-amqp", Module: "github.com/ThreeDotsLabs/watermill-amqp/v3", Version: "v3.0.2", Package: "./pkg/amqp",
			Variable: "WATERMILL_TEST_AMQP_URI", Classic: true, Tags: "reconnect", Restarts: "docker-compose", Least: 90,
		},
		{
			Name: "rabbitpubsub", Module: "gocloud.dev/pubsub/rabbitpubsub", Version: "v0.46.0", Package: ".",
			File: "rabbit_test.go", Fixed: "localhost:5672", Least: 40,
		},
	}
}

// parallelTests is how many tests of a library run at once, as watermill's Makefile has it: they
// mostly wait. testsTimeout bounds all of them.
const (
	parallelTests = "20"
	testsTimeout  = "20m"
)

// Tests runs the library's own tests, or a short form of them, against a node of its own. It
// returns ErrAbsent if the library or a dependency of its tests cannot be fetched.
func (l Library) Tests(ctx context.Context, short bool) (LibraryTests, error) {
	return l.beside(ctx, 0, func(dir string, q *Quorate) (LibraryTests, error) { return l.tests(ctx, dir, q, short) })
}

// beside fetches the library into a directory, starts a node, calls run with both, and removes them. management is as for
// StartQuorate.
func (l Library) beside(ctx context.Context, management int, run func(dir string, q *Quorate) (LibraryTests, error)) (r LibraryTests, err error) {
	binary, err := Binary()
	if err != nil {
		return r, err
	}
	dir, err := os.MkdirTemp("", "library")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := l.fetch(ctx, dir); err != nil {
		return r, err
	}
	q, err := StartQuorate(ctx, binary, 1, management)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	return run(dir, q)
}

// besideHTTP is beside with a node that serves RabbitMQ's HTTP paths, at any port that is free.
func (l Library) besideHTTP(ctx context.Context, run func(dir string, q *Quorate) (LibraryTests, error)) (LibraryTests, error) {
	port, err := freePorts(1)
	if err != nil {
		return LibraryTests{}, err
	}
	management, err := strconv.Atoi(port[0])
	if err != nil {
		return LibraryTests{}, err
	}
	return l.beside(ctx, management, run)
}

// tests runs what is in the directory against the node.
func (l Library) tests(ctx context.Context, dir string, q *Quorate, short bool) (r LibraryTests, err error) {
	address := net.JoinHostPort(q.Address())
	if err := errors.Join(l.point(dir, address), l.queues(ctx, q)); err != nil {
		return r, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := l.command(ctx, dir, address, short)
	if l.Restarts == "" || short {
		return goTests(cmd, l.Least), nil
	}
	programs := filepath.Join(dir, "programs")
	failed, err := q.restarts(ctx, cancel, programs, l.Restarts)
	if err != nil {
		return r, err
	}
	cmd.Env = append(cmd.Env, "PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"))
	r = goTests(cmd, l.Least)
	cancel()
	return r, <-failed
}

// command returns the command that runs the tests.
func (l Library) command(ctx context.Context, dir, address string, short bool) *exec.Cmd {
	args := []string{"test", "-mod=mod", "-vet=off", "-json", "-count=1", "-parallel", parallelTests, "-timeout", testsTimeout}
	if short {
		args = append(args, "-short")
	} else {
		args = append(args, "-tags", l.Tags)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, l.Package)...)
	cmd.Dir, cmd.Env = dir, os.Environ()
	if l.Variable != "" {
		cmd.Env = append(cmd.Env, l.Variable+"=amqp://guest:guest@"+address+"/")
	}
	return cmd
}

// fetch copies the module into a directory and downloads all that its tests import.
func (l Library) fetch(ctx context.Context, dir string) error {
	var module struct{ Dir, Error string }
	get := exec.CommandContext(ctx, "go", "mod", "download", "-json", l.Module+"@"+l.Version)
	get.Dir = dir // outside any other module
	out, err := get.Output()
	if err := errors.Join(err, json.Unmarshal(out, &module)); err != nil {
		return fmt.Errorf("%s@%s %w: go mod download: %w: %s", l.Module, l.Version, ErrAbsent, err, firstLine(module.Error))
	}
	if err := os.CopyFS(dir, os.DirFS(module.Dir)); err != nil {
		return err
	}
	if l.Prepare != nil {
		if err := l.Prepare(dir); err != nil {
			return err
		}
	}
	list := exec.CommandContext(ctx, "go", "list", "-mod=mod", "-deps", "-test", l.Package)
	list.Dir = dir
	var complaint bytes.Buffer
	list.Stderr = &complaint
	if err := list.Run(); err != nil {
		return fmt.Errorf("dependencies of the tests of %s@%s: %w: go list: %w: %s", l.Module, l.Version, ErrAbsent, err, firstLine(complaint.String()))
	}
	return nil
}

// point replaces the broker's address in tests that have a fixed one by the node's.
func (l Library) point(dir, address string) error {
	if l.File == "" {
		return nil
	}
	return l.change(dir, replacement{l.File, l.Fixed, address})
}

// replacement is a text of a file that another takes the place of, wherever it is.
type replacement struct{ file, old, is string }

// change replaces texts in the copy in a directory.
func (l Library) change(dir string, all ...replacement) error {
	for _, r := range all {
		name := filepath.Join(dir, r.file)
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if !bytes.Contains(text, []byte(r.old)) {
			return fmt.Errorf("%s of %s@%s does not contain %s any more: correct what is replaced", r.file, l.Module, l.Version, r.old)
		}
		if err := os.WriteFile(name, bytes.ReplaceAll(text, []byte(r.old), []byte(r.is)), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// addProgram puts testdata/NAME/main.go into the copy in a directory, as its package ./quorate.
func (l Library) addProgram(dir string) error {
	program, err := os.ReadFile(filepath.Join("testdata", l.Name, "main.go"))
	if err != nil {
		return err
	}
	to := filepath.Join(dir, "quorate")
	return errors.Join(os.Mkdir(to, 0o700), os.WriteFile(filepath.Join(to, "main.go"), program, 0o600))
}

// buildProgram builds what addProgram put there. Without the path of the directory in it, what was compiled once is found
// again.
func (l Library) buildProgram(ctx context.Context, dir string) (program string, err error) {
	program = filepath.Join(dir, "quorate", "program")
	build := exec.CommandContext(ctx, "go", "build", "-mod=mod", "-trimpath", "-o", program, "./quorate")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the program for %s is not built: %w: %.2000s", l.Name, err, out)
	}
	return program, nil
}

// queues gives the vhost the default type of durable queues that the library expects.
func (l Library) queues(ctx context.Context, q *Quorate) error {
	if !l.Classic {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c, err := client.Dial(ctx, client.Config{Addresses: q.Cluster.Addresses()})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.PutVHost(ctx, client.VHost{Name: "/", DefaultQueueType: "classic"})
	return err
}
