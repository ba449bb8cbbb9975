package conformance

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strings"
)

var (
	passedLine  = regexp.MustCompile(`(?m)^--- PASS`)
	failedLine  = regexp.MustCompile(`(?m)^--- FAIL.*(\n    .*)*`)
	skippedLine = regexp.MustCompile(`(?m)^--- SKIP: (\S+).*\n(?:\s+(.*))?`)
)

// LibraryTests are what became of a library's own tests.
type LibraryTests struct {
	Passed int
	// Failed has the output of each test that did, Skipped the reason of what was left out.
	Failed, Skipped []string
}

// OwnTests runs amqp091-go's integration tests, as they are, against a node of its own. Three
// run only where the server calls itself RabbitMQ, and leave their connection open
// elsewhere. Those that reconnect ask the HTTP API of a broker at port 15672 to drop their
// connections; they are left out, and counted as skipped, if that port is another's.
func OwnTests(ctx context.Context) (r LibraryTests, err error) {
	binary, err := Binary()
	if err != nil {
		return r, err
	}
	leave, management := "TestRabbitMQQueue|TestIntegrationRecoverNotImplemented|TestIntegrationConsumeFlow", managementAddress
	r.Skipped = append(r.Skipped, "TestIntegrationConsumeFlow: it takes for granted that channel.flow is refused, and panics where it is answered")
	if !freeManagement() {
		leave, management = leave+"|Recover", ""
		r.Skipped = append(r.Skipped, "those that reconnect: they need port 15672, which is in use")
	}
	q, err := StartQuorate(ctx, binary, 1, management)
	if err != nil {
		return r, err
	}
	host, port := q.Address()
	cmd := exec.CommandContext(ctx, "go", "test", "-tags", "integration", "-count=1", "-v", "-skip", leave, "github.com/rabbitmq/amqp091-go")
	cmd.Env = append(cmd.Environ(), "AMQP_URL=amqp://guest:guest@"+net.JoinHostPort(host, port)+"/")
	out, failure := cmd.CombinedOutput()
	text := string(out)
	r.Passed = len(passedLine.FindAllString(text, -1))
	r.Failed = failedLine.FindAllString(text, -1)
	for _, m := range skippedLine.FindAllStringSubmatch(text, -1) {
		r.Skipped = append(r.Skipped, m[1]+", by the library itself: it asks a broker's own program to raise an alarm, and is not told of one")
	}
	if failure != nil && len(r.Failed) == 0 {
		r.Failed = []string{failure.Error() + "\n" + text[max(0, len(text)-4000):]}
	}
	if r.Passed < 200 && len(r.Failed) == 0 {
		r.Failed = []string{fmt.Sprintf("only %d tests ran: %s", r.Passed, strings.TrimSpace(text[max(0, len(text)-400):]))}
	}
	return r, q.Close()
}
