package conformance

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// closingRounds is the number of rounds of a whole run; each closes four connections.
const closingRounds = 50

// Closing closes connections of amqplib while messages are delivered or wait in its buffers; the
// client keeps writing until it has read close-ok. It reports which connections did not end cleanly
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
