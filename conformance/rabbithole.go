package conformance

import (
	"bytes"
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
	return Library{Name: "rabbit-hole", Module: "github.com/michaelklishin/rabbit-hole/v2", Version: "v2.12.0", Package: "."}
}

// leastSpecs is the least number of specs that RabbitHole must find.
const leastSpecs = 130

// RabbitHole runs rabbit-hole's own specs against the HTTP API of a node of its own. The specs of
// rabbitHoleDifferences have to fail, all others to pass. It returns ErrAbsent if the library or a dependency of its specs
// cannot be fetched.
func RabbitHole(ctx context.Context) (LibraryTests, error) {
	return rabbitHole().beside(ctx, managementPort, func(dir string, q *Quorate) (LibraryTests, error) { return specs(ctx, dir, q) })
}

// specs runs what is in the directory against the node.
func specs(ctx context.Context, dir string, q *Quorate) (r LibraryTests, err error) {
	if err := errors.Join(pointSpecs(dir, q.Cluster.Nodes[0]), hole(ctx, q)); err != nil {
		return r, err
	}
	report := filepath.Join(dir, "report.xml")
	cmd := exec.CommandContext(ctx, "go", "test", "-mod=mod", "-vet=off", "-count=1", "-timeout", testsTimeout, ".", "-ginkgo.noColor", "-ginkgo.reportFile="+report)
	cmd.Dir = dir
	out, failed := cmd.CombinedOutput()
	text, err := os.ReadFile(report)
	if err != nil {
		return r, fmt.Errorf("the specs of rabbit-hole left no report: %w: %w: %s", err, failed, out)
	}
	return judgeSpecs(text, rabbitHoleDifferences())
}

// pointSpecs makes the specs use a node. They wait for RabbitMQ to collect statistics, for 5 s each time; here
// figures are read when somebody asks. They also compare the whole of an answer 404, whose reason here names what
// does not exist.
func pointSpecs(dir string, n *chaos.Node) error {
	_, port, err := net.SplitHostPort(n.AMQP)
	if err != nil {
		return err
	}
	for _, change := range []struct{ file, old, is string }{
		{"rabbithole_test.go", "127.0.0.1:15672", n.Management},
		{"health_checks_test.go", "127.0.0.1:15672", n.Management},
		{"rabbithole_test.go", "localhost:5672", n.AMQP},
		{"rabbithole_test.go", "BeEquivalentTo(5672)", "BeEquivalentTo(" + port + ")"},
		{"health_checks_test.go", "HealthCheckPortListener(5672)", "HealthCheckPortListener(" + port + ")"},
		{
			"rabbithole_test.go", `Equal(ErrorResponse{404, "Object Not Found", "Not Found"})`,
			`WithTransform(func(e ErrorResponse) string { return fmt.Sprint(e.StatusCode, e.Message) }, Equal("404Object Not Found"))`,
		},
		{"rabbithole_test.go", "time.Sleep(5000 * time.Millisecond)", "time.Sleep(250 * time.Millisecond)"},
	} {
		name := filepath.Join(dir, change.file)
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if !bytes.Contains(text, []byte(change.old)) {
			return fmt.Errorf("%s of rabbit-hole does not contain %s any more: correct pointSpecs", change.file, change.old)
		}
		if err := os.WriteFile(name, bytes.ReplaceAll(text, []byte(change.old), []byte(change.is)), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// hole makes the vhost that the specs use, as the library's own preparation does.
func hole(ctx context.Context, q *Quorate) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c, err := client.Dial(ctx, client.Config{Addresses: q.Cluster.Addresses()})
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.PutVHost(ctx, client.VHost{Name: "rabbit/hole"}); err != nil {
		return err
	}
	_, err = c.SetPermission(ctx, client.Permission{VHost: "rabbit/hole", User: "guest", Configure: ".*", Write: ".*", Read: ".*"})
	return err
}

// specDifference is a spec that fails here, by the beginning of its name, and why.
type specDifference struct{ spec, why string }

// rabbitHoleDifferences returns the specs that fail.
func rabbitHoleDifferences() []specDifference {
	const (
		client    = "RabbitMQ HTTP API client "
		plugin    = "there is no such plugin: parameters without effect are refused (VH-9)"
		mirrors   = "there are no mirrored queues, as in RabbitMQ 4"
		samples   = "figures have rates, and no samples of the past"
		published = "the name of the cluster is a setting, and no global parameter"
	)
	out := []specDifference{
		{client + "DELETE /api/connections/{name}", "the reason does not speak of a plugin"},
		{client + "PUT /cluster-name", "the name of the cluster is a setting (cluster.name)"},
		{client + "GET /queues with arguments", samples},
		{client + "GET /queues/{vhost} with arguments", samples},
		{client + "PUT /users/{name} updates the user with a password hash", "hashes of passwords are shown in exports alone"},
		{client + "DELETE /topic-permissions/{vhost}/{user}/{exchange}", "topic permissions are given for exchanges that there are"},
		{client + "POST /queues/{vhost}/{queue}/actions", mirrors},
		{client + "definition export returns exported global parameters", published},
		{client + "Global parameters GET /api/global-parameters", published},
	}
	for _, s := range []string{
		"GET /policies when", "GET /polices/{vhost} when policy exists", "GET /policies/{vhost}/{name} when policy exists", "DELETE /polices/{vhost}/{name}", "PUT /policies/{vhost}/{name}",
	} {
		out = append(out, specDifference{client + s, mirrors})
	}
	for _, s := range []string{
		"GET /api/parameters/federation-upstream when there are upstreams", "GET /api/parameters/federation-upstream/{vhost} when there are upstreams",
		"GET /api/parameters/federation-upstream/{vhost}/{upstream} when the upstream exists", "PUT /api/parameters/", "DELETE /api/parameters/federation-upstream/{vhost}/{name} when the upstream exists",
		"GET /api/federation-links", "PUT /parameters/shovel", "GET /shovels", "GET /api/parameters when there are runtime parameters",
	} {
		out = append(out, specDifference{client + s, plugin})
	}
	return out
}

// specReport is what Ginkgo writes in the format of JUnit.
type specReport struct {
	Cases []struct {
		Name    string  `xml:"name,attr"`
		Failure *string `xml:"failure"`
		Skipped *string `xml:"skipped"`
	} `xml:"testcase"`
}

// judgeSpecs compares a report with the differences that are known.
func judgeSpecs(report []byte, differences []specDifference) (r LibraryTests, err error) {
	var specs specReport
	if err := xml.Unmarshal(report, &specs); err != nil {
		return r, fmt.Errorf("report of the specs: %w", err)
	}
	if n := len(specs.Cases); n < leastSpecs {
		r.Failed = append(r.Failed, fmt.Sprintf("%d specs were found, want at least %d", n, leastSpecs))
	}
	for _, s := range specs.Cases {
		why := ""
		for _, d := range differences {
			if strings.HasPrefix(s.Name, d.spec) {
				why = d.why
			}
		}
		switch {
		case s.Skipped != nil:
			r.Skipped = append(r.Skipped, s.Name+", by the library itself")
		case s.Failure == nil && why != "":
			r.Failed = append(r.Failed, s.Name+" passes, although a difference is known: "+why)
		case s.Failure == nil:
			r.Passed++
		case why != "":
			r.Expected = append(r.Expected, s.Name+": "+why)
		default:
			r.Failed = append(r.Failed, s.Name+": "+*s.Failure)
		}
	}
	return r, nil
}
