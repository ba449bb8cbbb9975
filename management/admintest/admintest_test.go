package admintest

import (
	"bytes"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/management"
)

// programEnv names the variable with the path of RabbitMQ's script, which `make management-test` sets.
const programEnv = "QUORATE_RABBITMQADMIN"

// admin runs the script against one node of a cluster.
type admin struct {
	t       *testing.T
	program string
	address *url.URL
	dir     string // its working directory
	cluster *testcluster.Cluster
}

// start serves a node of a cluster of three.
func start(t *testing.T) admin {
	t.Helper()
	program := os.Getenv(programEnv)
	if program == "" {
		t.Skip("make management-test runs rabbitmqadmin, of Debian's rabbitmq-server")
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatal(err)
	}
	t.Parallel()
	c := testcluster.Start(t, 3)
	s := httptest.NewServer(management.New(management.Config{Broker: c.Broker(2), Node: c.Name(2), Version: "test", Cluster: "test"}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return admin{t: t, program: program, address: u, dir: t.TempDir(), cluster: c}
}

// step is one run of the script.
type step struct {
	args  []string
	input string
	want  []string // what it prints; with ! before it, what it does not
	fails string   // what it prints before it fails; "": it succeeds
	soon  bool     // it prints that in the end: figures are collected every few seconds
}

// run runs the script as a user whose password is its name.
func (a admin) run(user string, args []string, input string) (out, complaint string, err error) {
	a.t.Helper()
	try(args)
	all := append([]string{a.program, "-H", a.address.Hostname(), "-P", a.address.Port(), "-u", user, "-p", user}, args...)
	cmd := exec.CommandContext(a.t.Context(), "python3", all...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	cmd.Dir = a.dir
	cmd.Env = append(os.Environ(), "HOME="+a.dir, "PYTHONIOENCODING=utf-8", "PYTHONUTF8=1")
	err = cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		a.t.Fatal(err)
	}
	return stdout.String(), stderr.String(), err
}

// follow runs steps one after another.
func (a admin) follow(user string, steps []step) {
	a.t.Helper()
	for _, x := range steps {
		if x.soon {
			testcluster.Poll(a.t, strings.Join(x.args, " "), func() error {
				out, complaint, err := a.run(user, x.args, x.input)
				if err == nil && slices.ContainsFunc(x.want, func(want string) bool { return !strings.Contains(out, want) }) {
					err = fmt.Errorf("it printed %s%s, want %q", out, complaint, x.want)
				}
				return err
			})
			continue
		}
		out, complaint, err := a.run(user, x.args, x.input)
		if (err != nil) != (x.fails != "") || !strings.Contains(complaint, x.fails) {
			a.t.Errorf("%q: %v %s%s", x.args, err, out, complaint)
			continue
		}
		for _, want := range x.want {
			unwanted, not := strings.CutPrefix(want, "!")
			if strings.Contains(out, unwanted) == not {
				a.t.Errorf("%q printed %s, want %s", x.args, out, want)
			}
		}
	}
}

// do is a step that prints something. Words of the line are the arguments.
func do(line string, want ...string) step { return step{args: strings.Fields(line), want: want} }

// soon is a step that prints something in the end.
func soon(line string, want ...string) step {
	return step{args: strings.Fields(line), want: want, soon: true}
}

// refused is a step that fails.
func refused(line, why string) step { return step{args: strings.Fields(line), fails: why} }

// file returns the text of a file that the script wrote.
func (a admin) file(name string) string {
	a.t.Helper()
	b, err := os.ReadFile(filepath.Join(a.dir, name))
	if err != nil {
		a.t.Fatal(err)
	}
	return string(b)
}
