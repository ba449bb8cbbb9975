package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/internal/testcluster"
)

// shared is an output that may be looked at while it is written.
type shared struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// blanks are those between columns.
var blanks = regexp.MustCompile(` +`)

// testUsers changes the user app and the only administrator: what is not named stays (VH-10).
func testUsers(ctl func(int, string, string) string) {
	ctl(0, "created false", "user put app --new-password other")
	ctl(0, "monitoring argon2id -", "users list")
	ctl(2, "--tag", "user tags app")
	ctl(0, "", "user tags app --tag management --tag policymaker")
	ctl(0, "management,policymaker argon2id", "users list")
	ctl(0, "", "user limits app --max-channels 7")
	ctl(0, "", "user limits app --max-connections 5")
	ctl(0, "", "user passwd app --new-password third")
	ctl(0, "management,policymaker argon2id 5 7", "users list")
	ctl(0, "", "user tags app --none")
	ctl(2, "--password-stdin", "user passwd app")
	ctl(2, "no limit is given", "user limits app")
	ctl(1, "NOT_FOUND", "user passwd nobody --new-password p")
	ctl(1, "NOT_FOUND", "user tags nobody --none")
	ctl(1, "NOT_FOUND", "user limits nobody --max-channels 1")

	ctl(0, "created false", "user put guest --new-password guest")
	ctl(0, "administrator", "whoami")
	for _, line := range []string{
		"user delete guest", "user tags guest --none", "user put guest --new-password guest --tag monitoring",
		"user passwd guest --no-password", "user limits guest --max-connections 0",
	} {
		ctl(1, "make another user with the tag administrator", line)
	}
}

// Against three real nodes: what a command line prints, and its exit code.
func TestAgainstCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes: not in short mode")
	}
	c := testcluster.StartMany(t, 3, 0) // a node that is slow for a moment is not taken for dead
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	try := func(want int, contains string, line string) (errs string, wrong error) {
		var o, e shared
		args := append([]string{"-a", strings.Join(c.Addrs(), ",")}, strings.Fields(line)...)
		if got := run(ctx, args, &o, &e); got != want || !strings.Contains(blanks.ReplaceAllString(o.String()+e.String(), " "), contains) {
			wrong = fmt.Errorf("quoratectl %s: %d, want %d and %q\n%s%s", line, got, want, contains, o.String(), e.String())
		}
		return e.String(), wrong
	}
	ctl := func(want int, contains string, line string) string {
		t.Helper()
		errs, wrong := try(want, contains, line)
		if wrong != nil {
			t.Error(wrong)
		}
		return errs
	}
	soon := func(want int, contains string, line string) { // what nodes learn of each other takes a moment
		t.Helper()
		testcluster.Poll(t, line, func() error {
			_, wrong := try(want, contains, line)
			return wrong
		})
	}
	ctl(0, "true", "queue declare three")
	soon(0, fmt.Sprintf("version %d is finalised", catalog.NewestVersion), "cluster status")
	soon(0, "is finalised already", "upgrade finalize --dry-run")
	ctl(0, "is finalised already", "upgrade finalize")
	soon(0, "next: nothing: the cluster is whole and runs one build", "upgrade status")
	soon(0, "ok", "upgrade check")
	ctl(1, "not in the cluster", "upgrade check nobody")
	ctl(0, "node-1", "log level debug --node node-1 --for 1m")
	soon(0, "debug", "log level")
	ctl(0, "until_ms", "log level --reset -o json")
	ctl(1, "want debug, info, warn or error", "log level loud")
	ctl(2, "choose one", "log level debug --reset")
	ctl(1, "is not alive in the cluster", "log tail nobody")
	ctl(0, "", "log tail --level error -n 5")
	ctl(0, "true", "queue declare one -x x-quorum-initial-group-size=1")
	soon(0, "running", "nodes ls")
	soon(0, "started", "nodes status node-1 -o json")
	ctl(1, "not in the cluster", "nodes status nobody")
	soon(0, "ok", "check ready")
	soon(0, "ok", "check ready node-1")
	ctl(1, "not in the cluster", "check ready nobody --wait 1m")
	ctl(0, "ok", "check ready --wait 1m")
	ctl(2, "must not be negative", "check ready --wait -1s")
	soon(0, "ok", "check alarms")
	soon(0, "ok", "check versions")
	soon(0, "[]", "check all -o json")
	soon(1, `queue "one" in vhost "/" its only member is on node`, "check quorum-critical")
	soon(1, `queue "one" in vhost "/" its only member is on node`, "check quorum-critical --wait 1ms")
	soon(1, `queue "one" in vhost "/" its only member is on node`, "upgrade check")
	ctl(2, "over TLS", "check certificates")
	ctl(0, "1 changes would be made; nothing was done", "queues shrink node-0 --queues thr* --dry-run")
	ctl(0, "plan_total: 1", "queues shrink node-0 --queues thr* --dry-run -o yaml")
	ctl(1, "is a member of the queue already", "queues add-member three node-1")
	ctl(1, "is not in the cluster", "queues grow nobody --no-wait")
	ctl(0, "", "queues transfer three --to node-1")
	soon(0, "node-1", "queue show three -o json")

	soon(0, "gRPC", "connection list --of guest")
	soon(0, "received_bytes", "connections ls -o json")
	ctl(1, "NOT_FOUND", "connection close nix --reason none")
	soon(0, "UNSETTLED", "consumer list --vhost / --queue three")
	ctl(0, "[]", "connection list --vhost none -o json")
	ctl(0, "[]", "consumer list --vhost none -o json")

	ctl(0, "created true", "vhost put orders --tag prod --protected")
	ctl(1, "is protected from deletion", "vhost delete orders")
	ctl(0, "prod", "vhosts list")
	ctl(0, "", "vhost limits orders --max-queues 0")
	ctl(1, "max-queues", "queue declare q --vhost orders")
	ctl(2, "--password-stdin", "user put app")
	ctl(0, "created true", "user put app --password-hash kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR --tag monitoring")
	ctl(0, "rabbit_password_hashing_sha256", "users list")
	ctl(0, "created true", "permission set app ^app \\.w r --vhost orders")
	ctl(0, "\\.w", "permission list --of app")
	ctl(1, "is not a regular expression", "permission set app ( w r")
	ctl(0, "created true", "topic-permission set app amq.topic ^{username} r")
	ctl(0, "^{username}", "topic-permission list -o json")
	testUsers(ctl)
	ctl(0, "deleted true", "user delete app")

	ctl(0, "holds 0 ready messages", "queue delete three --dry-run")
	ctl(0, "nothing was done", "queue purge three --dry-run")
	ctl(1, "does not exist", "queue purge nobody --dry-run")
	ctl(1, "is protected from deletion", "vhost delete orders --dry-run")
	ctl(0, "created true", "exchange declare x fanout")
	ctl(0, "", "binding add x three k")
	ctl(0, "has 1 bindings", "exchange delete x --dry-run")
	ctl(0, "", "binding remove x three k")
	ctl(0, "has 0 bindings", "exchange delete x --dry-run")
	ctl(0, "", "exchange delete x --if-unused")
	ctl(1, "does not exist", "exchange delete x --dry-run")
	ctl(0, "created true", "policy put p ^thr max-length=100")
	ctl(0, "in force for 1 queues", "policy delete p --dry-run")
	ctl(0, "deleted true", "policy delete p")
	ctl(1, "does not exist", "policy delete p --dry-run")
	ctl(1, "is the last administrator", "user delete guest --dry-run")
	ctl(0, "created true", "user put second --new-password p --tag administrator")
	ctl(0, "has permissions in", "user delete guest --dry-run")
	ctl(0, "deleted true", "user delete second")
	ctl(0, "would lose these permissions", "permission clear guest --dry-run")
	ctl(1, "has no permission", "permission clear nobody --dry-run")
	ctl(1, "has no topic permission there", "topic-permission clear guest --dry-run")
	ctl(0, "created", "topic-permission set guest amq.topic .* .*")
	ctl(0, "has topic permissions at \"amq.topic\"", "topic-permission clear guest --exchange amq.topic --dry-run")
	ctl(0, "has topic permissions at \"amq.topic\"", "topic-permission clear guest --dry-run")
	ctl(1, "no binding", "binding remove amq.fanout three k --dry-run")
	ctl(0, "", "binding add amq.fanout three k")
	ctl(0, "has one binding", "binding remove amq.fanout three k --dry-run")
	ctl(0, "nothing was done", "token revoke id --dry-run")
	ctl(0, "unroutable_dropped", "nodes counters")
	ctl(0, "\"counters\":", "nodes counters -o json")
	ctl(0, "true", "queue declare last -x x-on-delete=dead-letter -x x-dead-letter-exchange=none")
	ctl(0, "", "publish last m")
	ctl(0, "false", "queue delete last --no-wait")
	soon(0, "deleting", "queue show last")
	ctl(0, "true", "queue delete last --discard")
	ctl(0, "three\n", "__complete queue purge t")
	ctl(0, "node-1\n", "__complete nodes drain n")
	ctl(0, "orders\n", "__complete vhost delete o")
	definitionsAgainst(t, ctl)
	soon(0, "queue_created", "events --history --count 1 --kind queue_created")
	soon(0, "kind: leader_changed", "events --history --count 1 --kind leader_changed --name thr* -o yaml")
	ctl(1, "there are queue_created", "events --kind nothing")

	hold := make(chan struct{})
	op, err := c.Cluster(1).Jobs().Start("test", "holds on", func(ctx context.Context, report func(operation.Progress)) error {
		report(operation.Progress{Phase: "hold", Done: 1, Total: 4, Unit: "queues", Detail: "waits"})
		select {
		case <-hold:
			return errors.New("let go")
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	x := op.ID.String()
	ctl(0, "holds on", "operations ls")
	watching, stop := context.WithCancel(ctx)
	var errs shared
	ended := make(chan int)
	go func() {
		ended <- run(watching, []string{"-a", c.Addrs()[2], "operations", "watch", x}, &shared{}, &errs)
	}()
	testcluster.Poll(t, "the operation is seen", func() error {
		if !strings.Contains(errs.String(), "25 %  1 of 4 queues  hold  waits") {
			return fmt.Errorf("%q", errs.String())
		}
		return nil
	})
	stop() // as ctrl-c does
	if code := <-ended; code != exitRefused || !strings.Contains(errs.String(), "quoratectl operations cancel "+x) {
		t.Errorf("watching ended with %d: %s", code, errs.String())
	}
	ctl(1, "has not ended within --timeout", "operations watch "+x+" --timeout 3s")
	ctl(0, "state: running", "operations ls -o yaml")
	close(hold)
	ctl(3, "1 of 4 queues are done and stay done", "operations watch "+x)
	ctl(1, "is failed", "operations cancel "+x)
	ctl(0, "let go", "operations ls --all")
	ctl(1, "NOT_FOUND", "operations watch node-1.1.77")

	ctl(0, "", "queue delete one") // wherever it is, it would hold up that node's drain
	if errs := ctl(0, "done", "nodes drain node-1"); !regexp.MustCompile(`node-1\.\d+\.2 drain: `).MatchString(errs) {
		t.Errorf("the drain was not shown: %s", errs)
	}
	soon(0, "draining", "nodes ls")
	ctl(0, "drain", "nodes drain node-1 --no-wait -o json")
}
