package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/internal/checks"
)

const (
	// oldest is how old a node's view of the cluster may be for decisions.
	oldest = 5 * time.Second
	// kindRemove is the broker's name for the operation that removes a node.
	kindRemove = "remove-node"
	// namedMost is how many problems a condition names.
	namedMost = 3
)

// asked is what the broker has answered in a pass.
type asked struct {
	client  *client.Client
	status  client.ClusterStatus
	removal string // id of the operation; "": none
}

// askBroker fills Seen.Broker, or says why it cannot.
func (t *pass) askBroker(ctx context.Context) {
	c, err := t.Pool.Of(ctx, t.q)
	if err != nil {
		t.seen.Unasked = err.Error()
		return
	}
	a := &asked{client: c}
	if a.status, err = c.ClusterDetails(ctx); err != nil {
		t.seen.Unasked = err.Error()
		return
	}
	if why := unsure(a.status); why != "" {
		t.seen.Unasked = why
		return
	}
	b := &Broker{Nodes: map[int]string{}, Removal: -1}
	for _, n := range a.status.Nodes {
		i, is := ordinal(n.ID, t.q.Name)
		if !is {
			continue
		}
		state := checks.NodeState(n)
		registered, err := isRegistered(ctx, c, n.ID, state)
		if err != nil {
			t.seen.Unasked = err.Error()
			return
		}
		if registered {
			b.Nodes[i] = state
		}
	}
	if err := t.operations(ctx, a, b); err != nil {
		t.seen.Unasked = err.Error()
		return
	}
	t.broker, t.seen.Broker = a, b
}

// isRegistered reports whether the cluster counts on a node. The list of nodes also has nodes known only by gossip,
// such as one that was forgotten and still runs; a node that serves is not one of these.
func isRegistered(ctx context.Context, c *client.Client, node, state string) (bool, error) {
	if state == running {
		return true, nil
	}
	switch _, err := c.ReplaceNode(ctx, client.ReplaceNodeRequest{Node: node, DryRun: true}); client.ClassOf(err) {
	case client.NotFound:
		return false, nil
	case client.PreconditionFailed: // it runs with what it has stored
		return true, nil
	default:
		return err == nil, err
	}
}

// unsure returns why a node's view of the cluster must not be used for decisions, or "".
func unsure(st client.ClusterStatus) string {
	switch {
	case st.Hindrance != "":
		return st.Hindrance
	case st.CatalogLeader == "":
		return "the catalog has no leader: start a majority of the nodes"
	case st.ViewAge == nil || *st.ViewAge > oldest:
		return fmt.Sprintf("node %q does not know the present state of the cluster", st.Node)
	}
	return ""
}

// operations notes what the broker is busy with.
func (t *pass) operations(ctx context.Context, a *asked, b *Broker) error {
	for o, err := range a.client.Operations(ctx, client.ListOperationsRequest{Running: true}) {
		if _, silent := errors.AsType[*client.SilentNodesError](err); silent {
			return nil // nodes that are down have no operations; those that hang are no ground to wait for ever
		}
		if err != nil {
			return err
		}
		status := &v1alpha1.OperationStatus{ID: o.ID, Phase: o.Phase, Done: o.Done, Total: o.Total, Unit: o.Unit, Detail: o.Detail}
		if o.Kind != kindRemove {
			b.Busy = o.Kind + " " + o.Target
			continue
		}
		for i := range b.Nodes {
			if strings.Contains(o.Target, fmt.Sprintf("%q", t.pod(i))) {
				b.Removal, a.removal, t.operation = i, o.ID, status
			}
		}
	}
	return nil
}

// ask asks the broker. An answer says why not, in the broker's words; an error means that there is none.
func (t *pass) ask(ctx context.Context, q Question) (Answer, error) {
	node := t.pod(q.Node)
	switch q.About {
	case MayTakeDown:
		return t.mayTakeDown(ctx, node)
	case MayReplace:
		plan, err := t.broker.client.ReplaceNode(ctx, client.ReplaceNodeRequest{Node: node, DryRun: true})
		return replaceable(plan, err)
	case MayForget: // the plan of ForgetNode does not show what is lost
		plan, err := t.broker.client.ReplaceNode(ctx, client.ReplaceNodeRequest{Node: node, DryRun: true})
		return answerOf(plan, err)
	case MayRemove:
		beside, err := t.Pool.Beside(ctx, t.q, node)
		if err != nil {
			return "", err
		}
		defer beside.Close()
		plan, err := beside.RemoveNode(ctx, client.RemoveNodeRequest{Node: node, Exclude: t.next(q.Node), DryRun: true})
		return answerOf(plan, err)
	}
	return "", fmt.Errorf("cluster: question about %d is not known", q.About)
}

// next returns the nodes that leave after one: nothing shall move to them.
func (t *pass) next(node int) (names []string) {
	for i := t.seen.Wanted; i < node; i++ {
		names = append(names, t.pod(i))
	}
	return names
}

// answerOf reads a plan: its lines in capitals are what is refused or would be lost. A refusal by the broker is an
// answer; a failure to ask it is not.
func answerOf(plan client.StartedOperation, err error) (Answer, error) {
	switch client.ClassOf(err) {
	case client.PreconditionFailed, client.NotFound, client.NotAllowed, client.ResourceLocked, client.AccessRefused:
		return Answer(err.Error()), nil
	default:
		if err != nil {
			return "", err
		}
	}
	var against []string
	for _, line := range plan.Plan {
		if strings.HasPrefix(line, "REFUSED") || strings.HasPrefix(line, "LOST") {
			against = append(against, line)
		}
	}
	return Answer(someOf(against)), nil
}

// Words of the plan of a replacement, see package broker/operators.
const (
	wordsVacant = "was given up already"
	wordsWaits  = "waits with an empty data directory"
)

// replaceable reads the plan of a replacement, which also shows what the node came with.
func replaceable(plan client.StartedOperation, err error) (Answer, error) {
	against, err := answerOf(plan, err)
	if err != nil || against != "" {
		return against, err
	}
	for _, line := range plan.Plan {
		switch {
		case strings.Contains(line, wordsVacant):
			return vacant, nil
		case strings.Contains(line, wordsWaits):
			return "", nil
		}
	}
	return otherData, nil
}

// mayTakeDown is `quoratectl upgrade check NODE`, without what that node itself is reproached with.
func (t *pass) mayTakeDown(ctx context.Context, node string) (Answer, error) {
	l := &checks.Look{Client: t.broker.client, Status: t.broker.status, Node: node, IgnoreAlone: t.seen.AllowPauses || len(t.seen.Broker.Nodes) == 1}
	found, err := l.TakingDown(ctx)
	if err != nil {
		return "", err
	}
	var against []string
	for _, p := range found {
		if p.Object != "node "+node {
			against = append(against, p.Object+": "+p.Problem)
		}
	}
	return Answer(someOf(against)), nil
}

// someOf joins the first few sentences.
func someOf(lines []string) string {
	if more := len(lines) - namedMost; more > 0 {
		return strings.Join(lines[:namedMost], "; ") + fmt.Sprintf("; and %d more", more)
	}
	return strings.Join(lines, "; ")
}
