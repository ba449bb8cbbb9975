package conformance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Kind is a client library with its program.
type Kind struct {
	Name string
	// Install installs what is missing, if it can, and returns the program's command line. If it
	// cannot, it returns ErrAbsent with the way to install it.
	Install func(context.Context) ([]string, error)
	// Failover means that the program can flood a queue and collect from one.
	Failover bool
}

// Kinds returns all client libraries.
func Kinds() []Kind {
	return []Kind{
		{"amqp091-go", func(ctx context.Context) ([]string, error) { return goProgram(ctx, "amqp091") }, true},
		{"pika", pika, true},
		{"amqplib", func(ctx context.Context) ([]string, error) { return node(ctx, "amqplib.js") }, true},
		{"amqp-client", func(ctx context.Context) ([]string, error) { return node(ctx, "amqp-client.js") }, true},
	}
}

// goProgram builds one of the clients in Go.
func goProgram(ctx context.Context, name string) ([]string, error) {
	out, err := filepath.Abs(filepath.Join("..", "bin", "conformance", name))
	if err != nil {
		return nil, err
	}
	text, err := exec.CommandContext(ctx, "go", "build", "-o", out, "./clients/"+name).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("client %s: %w: %s", name, err, text)
	}
	return []string{out}, nil
}

// debianPython is the Python that finds Debian's packages; another one in PATH may not.
const debianPython = "/usr/bin/python3"

// pika installs the distribution's package and runs the system's Python, the only one that finds
// it.
func pika(ctx context.Context) ([]string, error) {
	there := func() bool {
		return exec.CommandContext(ctx, debianPython, "-c", "import pika").Run() == nil
	}
	if err := apt(ctx, there, "python3-pika"); err != nil {
		return nil, err
	}
	return []string{debianPython, "-u", "clients/pika/runner.py"}, nil
}

// apt installs Debian packages unless they are installed.
func apt(ctx context.Context, there func() bool, names ...string) error {
	if there() {
		return nil
	}
	name := strings.Join(names, " ")
	if _, err := exec.LookPath("apt-get"); err != nil || os.Getuid() != 0 {
		return fmt.Errorf("%s %w: apt-get install %s, as root", name, ErrAbsent, name)
	}
	update := exec.CommandContext(ctx, "apt-get", "update", "-q")
	install := exec.CommandContext(ctx, "apt-get", append([]string{"install", "-y", "-q", "--no-install-recommends"}, names...)...)
	for _, cmd := range []*exec.Cmd{update, install} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s %w: %w: %s", name, ErrAbsent, err, firstLine(string(out)))
		}
	}
	if !there() {
		return fmt.Errorf("%s %w, although its package is", name, ErrAbsent)
	}
	return nil
}

// node installs the packages of package-lock.json and returns a program's command line.
func node(ctx context.Context, program string) ([]string, error) {
	if _, err := exec.LookPath("node"); err != nil {
		return nil, fmt.Errorf("node %w: install Node.js 20 or later with npm", ErrAbsent)
	}
	dir := filepath.Join("clients", "node")
	wanted, err := os.Stat(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		return nil, err
	}
	there, err := os.Stat(filepath.Join(dir, "node_modules", ".package-lock.json"))
	if err != nil || there.ModTime().Before(wanted.ModTime()) {
		cmd := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("packages of npm: one %w: npm ci in conformance/%s: %w: %s", ErrAbsent, dir, err, firstLine(string(out)))
		}
	}
	return []string{"node", filepath.Join(dir, program)}, nil
}
