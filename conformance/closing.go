package conformance

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// closingRounds of a whole run close four connections each.
const closingRounds = 50

// Closing closes connections of amqplib, which writes on until it has read close-ok, while
// messages are delivered or wait in its buffers, and says which of them did not end cleanly
// (AM-10).
func Closing(ctx context.Context, b Broker, rounds int) error {
	line, err := node(ctx, "closing.js")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	host, port := b.Address()
	out, err := exec.CommandContext(ctx, line[0], append(line[1:], host, port, strconv.Itoa(rounds))...).CombinedOutput()
	said := strings.TrimSpace(string(out))
	if err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	if want := fmt.Sprintf("%d closes, 0 with errors", 4*rounds); said != want {
		return fmt.Errorf("it printed %q, want %q", said, want)
	}
	return nil
}
