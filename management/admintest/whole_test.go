package admintest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// tried has the words of all runs of the script.
var tried struct {
	sync.Mutex
	runs [][]string
}

func try(args []string) {
	tried.Lock()
	defer tried.Unlock()
	tried.runs = append(tried.runs, args)
}

// TestMain fails if the script has a subcommand, by its own help, that no test has run.
func TestMain(m *testing.M) {
	code := m.Run()
	program := os.Getenv(programEnv)
	if whole := flag.Lookup("test.run").Value.String() == ""; code == 0 && program != "" && whole {
		code = missed(program)
	}
	os.Exit(code)
}

// missed prints the subcommands that no test has run, and returns 1 if there are some.
func missed(program string) int {
	help, err := exec.CommandContext(context.Background(), "python3", program, "help", "subcommands").Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	all := subcommands(string(help))
	if len(all) < 30 {
		fmt.Fprintf(os.Stderr, "the script's help has %d subcommands; it had 41: %q\n", len(all), all)
		return 1
	}
	code := 0
	for _, words := range all {
		if !slices.ContainsFunc(tried.runs, func(run []string) bool { return contains(run, words) }) {
			fmt.Fprintf(os.Stderr, "no test runs rabbitmqadmin %s\n", strings.Join(words, " "))
			code = 1
		}
	}
	return code
}

// contains reports whether the words of a subcommand stand in a run one after another.
func contains(run, words []string) bool {
	for i := range run {
		if slices.Equal(run[i:min(len(run), i+len(words))], words) {
			return true
		}
	}
	return false
}

// subcommandLine begins with what a subcommand is called; arguments, options and files follow.
var subcommandLine = regexp.MustCompile(`(?m)^  ((?:list|show|declare|delete|close|purge) [a-z_]+|export|import|publish|get) [\[<a-z]`)

func subcommands(help string) (all [][]string) {
	for _, m := range subcommandLine.FindAllStringSubmatch(help, -1) {
		all = append(all, strings.Fields(m[1]))
	}
	return all
}
