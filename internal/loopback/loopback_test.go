package loopback

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// askEnv makes this test's binary print addresses and end, as another process that asks.
const askEnv = "LOOPBACK_ASK"

func TestMain(m *testing.M) {
	if os.Getenv(askEnv) != "" {
		for range asked {
			address, err := Address()
			if err != nil {
				panic(err)
			}
			if _, err := os.Stdout.WriteString(address + "\n"); err != nil {
				panic(err)
			}
		}
		var wait [1]byte
		_, _ = os.Stdin.Read(wait[:]) // keeps its claim until the test has seen all
		return
	}
	os.Exit(m.Run())
}

const asked = 40

// Two processes and this one never get the same address, although nobody listens at it.
func TestProcessesGetDifferentAddresses(t *testing.T) {
	t.Parallel()
	got := map[string]bool{}
	add := func(address string) {
		if got[address] {
			t.Errorf("%s was handed out twice", address)
		}
		got[address] = true
	}
	for range 2 {
		for _, address := range askOther(t) {
			add(address)
		}
	}
	for range asked {
		address, err := Address()
		if err != nil {
			t.Fatal(err)
		}
		add(address)
	}
	if len(got) != 3*asked {
		t.Errorf("got %d addresses, want %d", len(got), 3*asked)
	}
}

// askOther starts a process that asks and lives until the test's end.
func askOther(t *testing.T) []string {
	t.Helper()
	other := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0]) // ended by its input
	other.Env = append(os.Environ(), askEnv+"=1")
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // lets it end
		if err := other.Wait(); err != nil {
			t.Error(err)
		}
	})
	var text strings.Builder
	b := make([]byte, 4096)
	for strings.Count(text.String(), "\n") < asked {
		n, err := out.Read(b)
		if err != nil {
			t.Fatalf("the other process said %q: %v", text.String(), err)
		}
		text.Write(b[:n])
	}
	return strings.Fields(text.String())
}

// An address that somebody has taken without asking is not handed out.
func TestTakenAddress(t *testing.T) {
	t.Parallel()
	address, err := Address()
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if Free(address) {
		t.Errorf("%s is told to be free, and is listened at", address)
	}
	for range 2 * blockPorts { // round the block, and more
		next, err := Address()
		if err != nil {
			t.Fatal(err)
		}
		if next == address {
			t.Fatalf("%s was handed out while it was listened at", address)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
