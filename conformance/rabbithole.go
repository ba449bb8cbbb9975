package conformance

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
)

// rabbitHole is the library by which Go programs, such as the Terraform provider and the Kubernetes operators of
// RabbitMQ, use its HTTP API.
func rabbitHole() Library {
	return Library{Name: "rabbit-hole", Module: "github.com/michaelklishin/rabbit-hole/v3", Version: "v3.5.0", Package: "."}
}

// leastSpecs is the least number of specs that RabbitHole must find. specsPatience is how long they wait for what comes in the
// end; the library's own tests wait for 5 s.
const (
	leastSpecs    = 170
	specsPatience = "20s"
)

// RabbitHole runs rabbit-hole's own specs against the HTTP API of a node of its own. The specs of
// rabbitHoleDifferences have to fail, all others to pass. It returns ErrAbsent if the library or a dependency of its specs
// cannot be fetched.
func RabbitHole(ctx context.Context) (LibraryTests, error) {
	return rabbitHole().besideHTTP(ctx, func(dir string, q *Quorate) (LibraryTests, error) { return specs(ctx, dir, q) })
}

// specs runs what is in the directory against the node.
func specs(ctx context.Context, dir string, q *Quorate) (r LibraryTests, err error) {
	if err := errors.Join(pointSpecs(dir, q.Cluster.Nodes[0]), hole(ctx, q)); err != nil {
		return r, err
	}
	report := filepath.Join(dir, "report.xml")
	cmd := exec.CommandContext(ctx, "go", "test", "-mod=mod", "-vet=off", "-count=1", "-timeout", testsTimeout, ".", "-ginkgo.no-color", "-ginkgo.junit-report="+report)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT="+specsPatience)
	out, failed := cmd.CombinedOutput()
	text, err := os.ReadFile(report)
	if err != nil {
		return r, fmt.Errorf("the specs of rabbit-hole left no report: %w: %w: %s", err, failed, out)
	}
	return judgeSpecs(text, rabbitHoleDifferences())
}

// pointSpecs makes the specs use a node. They wait for RabbitMQ to collect statistics, for 1.1 s each time; here
// figures are read when somebody asks. They also compare the whole of an answer 404, whose reason here names what
// does not exist.
func pointSpecs(dir string, n *chaos.Node) error {
	_, port, err := net.SplitHostPort(n.AMQP)
	if err != nil {
		return err
	}
	const specs, health = "rabbithole_test.go", "health_checks_test.go"
	return rabbitHole().change(
		dir,
		replacement{specs, "127.0.0.1:15672", n.Management},
		replacement{health, "127.0.0.1:15672", n.Management},
		replacement{specs, "localhost:5672", n.AMQP},
		replacement{specs, "BeEquivalentTo(5672)", "BeEquivalentTo(" + port + ")"},
		replacement{health, "HealthCheckPortListener(5672)", "HealthCheckPortListener(" + port + ")"},
		replacement{
			specs, `Equal(ErrorResponse{404, "Object Not Found", "Not Found"})`,
			`WithTransform(func(e ErrorResponse) string { return fmt.Sprint(e.StatusCode, e.Message) }, Equal("404Object Not Found"))`,
		},
		replacement{specs, "time.Duration(1100) * time.Millisecond", "250 * time.Millisecond"},
		replacement{specs, "time.Duration(600) * time.Millisecond", "250 * time.Millisecond"},
	)
}

// hole makes the vhost and the user that the specs use, as the library's own preparation does.
func hole(ctx context.Context, q *Quorate) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c, err := client.Dial(ctx, client.Config{Addresses: q.Cluster.Addresses()})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err1 := c.PutVHost(ctx, client.VHost{Name: "rabbit/hole"})
	_, err2 := c.SetPermission(ctx, client.Permission{VHost: "rabbit/hole", User: "guest", Configure: ".*", Write: ".*", Read: ".*"})
	_, err3 := c.PutUser(ctx, client.User{Name: "policymaker", Password: "policymaker", Tags: []string{"policymaker"}})
	_, err4 := c.SetPermission(ctx, client.Permission{VHost: "/", User: "policymaker", Configure: ".*", Write: ".*", Read: ".*"})
	return errors.Join(err1, err2, err3, err4)
}

// rabbitHoleDifferences returns the specs that fail.
func rabbitHoleDifferences() []difference {
	const (
		client    = "RabbitMQ HTTP API client "
		plugin    = "there is no such plugin: parameters without effect are refused (VH-9)"
		fresh     = "figures of a queue that has just been declared come within 5 s, for which the spec does not wait"
		published = "the name of the cluster is a setting, and no global parameter"
	)
	out := []difference{
		{test: client + "PUT /cluster-name", why: "the name of the cluster is a setting (cluster.name)"},
		{test: client + "GET /queues with arguments", why: fresh, sometimes: true},
		{test: client + "GET /queues/{vhost} with arguments", why: fresh, sometimes: true},
		{test: client + "PUT /users/{name} updates the user with a password hash", why: "hashes of passwords are shown in exports alone"},
		{test: client + "DELETE /topic-permissions/{vhost}/{user}/{exchange}", why: "topic permissions are given for exchanges that there are"},
		{test: client + "feature flags lists deprecated feature flags", why: "no release has said of a feature that it goes"},
		{test: client + "definition export returns exported global parameters", why: published},
		{test: client + "Global parameters GET /api/global-parameters", why: published},
	}
	for _, s := range []string{
		"GET /api/parameters/federation-upstream when there are upstreams", "GET /api/parameters/federation-upstream/{vhost} when there are upstreams",
		"GET /api/parameters/federation-upstream/{vhost}/{upstream} when the upstream exists", "PUT /api/parameters/", "DELETE /api/parameters/federation-upstream/{vhost}/{name} when the upstream exists",
		"GET /api/federation-links", "PUT /parameters/shovel", "GET /shovels", "GET /api/parameters when there are runtime parameters",
	} {
		out = append(out, difference{test: client + s, why: plugin})
	}
	return out
}

// specReport is what Ginkgo writes in the format of JUnit. Among its cases are what goes before and after all specs.
type specReport struct {
	Suites []struct {
		Cases []struct {
			Name    string     `xml:"name,attr"`
			Failure *specFault `xml:"failure"`
			Error   *specFault `xml:"error"` // of a spec that panicked
			Skipped *specFault `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

// specFault says why a spec failed, or was skipped.
type specFault struct {
	Message string `xml:"message,attr"`
}

// judgeSpecs compares a report with the differences that are known.
func judgeSpecs(report []byte, differences []difference) (r LibraryTests, err error) {
	var specs specReport
	if err := xml.Unmarshal(report, &specs); err != nil {
		return r, fmt.Errorf("report of the specs: %w", err)
	}
	found := 0
	for _, suite := range specs.Suites {
		found += len(suite.Cases)
		for _, s := range suite.Cases {
			name := strings.TrimPrefix(s.Name, "[It] ")
			switch {
			case s.Skipped != nil:
				r.Skipped = append(r.Skipped, name+", by the library itself: "+s.Skipped.Message)
			case s.Failure != nil:
				r.judge(name, true, s.Failure.Message, differences)
			case s.Error != nil:
				r.judge(name, true, s.Error.Message, differences)
			default:
				r.judge(name, false, "", differences)
			}
		}
	}
	if found < leastSpecs {
		r.Failed = append(r.Failed, fmt.Sprintf("%d specs were found, want at least %d", found, leastSpecs))
	}
	return r, nil
}
