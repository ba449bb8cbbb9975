package testcluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// denials says for each method of the API what somebody who may do nothing is answered: first
// with a permission in the vhost that matches nothing, then without one, then without a
// login. "" is success.
func denials() map[string]denial {
	const access, allowed, locked, ok = "ACCESS_REFUSED", "NOT_ALLOWED", "PRECONDITION_FAILED", ""
	right := func(r proto.Message) denial { return denial{r, access, allowed} } // at a queue or exchange
	tag := func(r proto.Message) denial { return denial{r, access, access} }
	binding := &brokerv1.Binding{Source: "amq.topic", Destination: "q", RoutingKey: "k"}
	job := &brokerv1.MessageJob{Queue: "q"}
	return map[string]denial{
		"Broker/Publish":    right(&brokerv1.PublishRequest{Sequence: 1, Message: &brokerv1.Message{RoutingKey: "q"}}),
		"Broker/PublishOne": right(&brokerv1.PublishOneRequest{Message: &brokerv1.Message{RoutingKey: "q"}}),
		"Broker/Consume":    right(open(&brokerv1.ConsumeOpen{Queue: "q"})),
		"Broker/Get":        right(&brokerv1.GetRequest{Queue: "q", AutoAck: true}),
		"Broker/Settle":     {&brokerv1.SettleRequest{SettleToken: "nix"}, locked, locked}, // the right comes after the token
		"Broker/Connect":    {&brokerv1.ConnectRequest{Vhost: "/"}, ok, allowed},

		"Admin/DeclareQueue":     right(&brokerv1.DeclareQueueRequest{Name: "new"}),
		"Admin/DeleteQueue":      right(&brokerv1.DeleteQueueRequest{Name: "q"}),
		"Admin/PurgeQueue":       right(&brokerv1.PurgeQueueRequest{Name: "q"}),
		"Admin/GetQueue":         right(&brokerv1.GetQueueRequest{Name: "q"}),
		"Admin/ListQueueMembers": tag(&brokerv1.ListQueueMembersRequest{Queue: "q"}),
		"Admin/DeclareExchange":  right(&brokerv1.DeclareExchangeRequest{Name: "new", Type: "topic"}),
		"Admin/DeleteExchange":   right(&brokerv1.DeleteExchangeRequest{Name: "x"}),
		"Admin/Bind":             right(&brokerv1.BindRequest{Binding: binding}),
		"Admin/Unbind":           right(&brokerv1.UnbindRequest{Binding: binding}),
		"Admin/ListQueues":       {&brokerv1.ListQueuesRequest{Vhost: "/"}, ok, access},
		"Admin/ListExchanges":    {&brokerv1.ListExchangesRequest{Vhost: "/"}, ok, access},
		"Admin/ListBindings":     {&brokerv1.ListBindingsRequest{Vhost: "/"}, ok, access},
		"Admin/ClusterStatus":    tag(&brokerv1.ClusterStatusRequest{Details: true}),
		"Admin/ListOperations":   tag(&brokerv1.ListOperationsRequest{}),
		"Admin/GetOperation":     tag(&brokerv1.GetOperationRequest{Id: "node-0/1/1"}),
		"Admin/WatchOperation":   tag(&brokerv1.WatchOperationRequest{Id: "node-0/1/1"}),
		"Admin/CancelOperation":  tag(&brokerv1.CancelOperationRequest{Id: "node-0/1/1"}),

		"Admin/RetryDelayed":       right(&brokerv1.RetryDelayedRequest{Name: "q"}),
		"Admin/TransferLeadership": tag(&brokerv1.TransferLeadershipRequest{Queue: "q"}),
		"Admin/Drain":              tag(&brokerv1.DrainRequest{}),
		"Admin/Undrain":            tag(&brokerv1.UndrainRequest{}),
		"Admin/GrowQueues":         tag(&brokerv1.GrowQueuesRequest{}),
		"Admin/ShrinkNode":         tag(&brokerv1.ShrinkNodeRequest{}),
		"Admin/RebalanceQueues":    tag(&brokerv1.RebalanceQueuesRequest{}),
		"Admin/RebalanceLeaders":   tag(&brokerv1.RebalanceLeadersRequest{}),
		"Admin/PlanRebalance":      tag(&brokerv1.PlanRebalanceRequest{}),
		"Admin/AddMember":          tag(&brokerv1.AddMemberRequest{}),
		"Admin/RemoveMember":       tag(&brokerv1.RemoveMemberRequest{}),
		"Admin/ReplaceMember":      tag(&brokerv1.ReplaceMemberRequest{}),
		"Admin/ForgetNode":         tag(&brokerv1.ForgetNodeRequest{}),
		"Admin/RemoveNode":         tag(&brokerv1.RemoveNodeRequest{}),
		"Admin/ReplaceNode":        tag(&brokerv1.ReplaceNodeRequest{}),
		"Admin/FinalizeVersion":    tag(&brokerv1.FinalizeVersionRequest{}),

		"Policies/PutPolicy":    tag(&brokerv1.PutPolicyRequest{Policy: &brokerv1.Policy{Name: "p", Pattern: "."}}),
		"Policies/DeletePolicy": tag(&brokerv1.DeletePolicyRequest{Name: "p"}),
		"Policies/ListPolicies": tag(&brokerv1.ListPoliciesRequest{Vhost: "/"}),

		"Connections/ListConnections": tag(&brokerv1.ListConnectionsRequest{}),
		"Connections/ListConsumers":   tag(&brokerv1.ListConsumersRequest{}),
		"Connections/CloseConnection": tag(&brokerv1.CloseConnectionRequest{Connection: "nix"}),

		"Logs/TailLog":         tag(&brokerv1.TailLogRequest{}),
		"Logs/GetLogLevel":     tag(&brokerv1.GetLogLevelRequest{}),
		"Logs/SetLogLevel":     tag(&brokerv1.SetLogLevelRequest{Level: "debug"}),
		"Figures/WatchCluster": tag(&brokerv1.WatchClusterRequest{}),

		"Events/TailAudit":   tag(&brokerv1.TailAuditRequest{}),
		"Events/WatchEvents": {&brokerv1.WatchEventsRequest{Vhost: "/"}, ok, access},

		"Transactions/SettleAndPublish": {&brokerv1.SettleAndPublishRequest{SettleToken: "nix"}, locked, locked}, // as Settle

		"Definitions/ExportDefinitions": tag(&brokerv1.ExportDefinitionsRequest{}),
		"Definitions/ImportDefinitions": tag(&brokerv1.ImportDefinitionsRequest{}),

		"Backups/ExportQueue":  tag(&brokerv1.ExportQueueRequest{Queue: "q"}),
		"Backups/RestoreQueue": tag(&brokerv1.RestoreQueueRequest{}),
		"Backups/FollowJob":    tag(&brokerv1.FollowJobRequest{}),

		"Messages/Peek":              right(&brokerv1.PeekRequest{Queue: "q"}),
		"Messages/DeleteMessages":    right(&brokerv1.DeleteMessagesRequest{Job: job}),
		"Messages/MoveMessages":      right(&brokerv1.MoveMessagesRequest{Job: job, ToQueue: "q"}),
		"Messages/RedriveMessages":   right(&brokerv1.RedriveMessagesRequest{Job: job}),
		"Messages/ExplainRouting":    tag(&brokerv1.ExplainRoutingRequest{}),
		"Messages/ExplainDeadLetter": right(&brokerv1.ExplainDeadLetterRequest{Queue: "q"}),

		"Access/PutVhost":             tag(&brokerv1.PutVhostRequest{Vhost: &brokerv1.Vhost{Name: "new"}}),
		"Access/DeleteVhost":          tag(&brokerv1.DeleteVhostRequest{Name: "/"}),
		"Access/ListVhosts":           tag(&brokerv1.ListVhostsRequest{}),
		"Access/ListLimits":           tag(&brokerv1.ListLimitsRequest{}),
		"Access/SetVhostLimits":       tag(&brokerv1.SetVhostLimitsRequest{Name: "/"}),
		"Access/PutUser":              tag(&brokerv1.PutUserRequest{Name: "new"}),
		"Access/ChangeUser":           tag(&brokerv1.ChangeUserRequest{Name: "guest", Tags: &brokerv1.UserTags{}}),
		"Access/DeleteUser":           tag(&brokerv1.DeleteUserRequest{Name: "guest"}),
		"Access/ListUsers":            tag(&brokerv1.ListUsersRequest{}),
		"Access/SetUserLimits":        tag(&brokerv1.SetUserLimitsRequest{Name: "guest"}),
		"Access/SetPermission":        tag(&brokerv1.SetPermissionRequest{Permission: &brokerv1.Permission{User: "nobody", Configure: ".*"}}),
		"Access/ClearPermission":      tag(&brokerv1.ClearPermissionRequest{User: "guest"}),
		"Access/ListPermissions":      tag(&brokerv1.ListPermissionsRequest{}),
		"Access/SetTopicPermission":   tag(&brokerv1.SetTopicPermissionRequest{}),
		"Access/ClearTopicPermission": tag(&brokerv1.ClearTopicPermissionRequest{User: "guest"}),
		"Access/ListTopicPermissions": tag(&brokerv1.ListTopicPermissionsRequest{}),
		"Access/WhoAmI":               {&brokerv1.WhoAmIRequest{}, ok, ok},
		"Access/MintToken":            {&brokerv1.MintTokenRequest{LifetimeMs: -1}, locked, locked}, // their own
		"Access/RevokeToken":          {&brokerv1.RevokeTokenRequest{Id: "nix"}, ok, ok},
	}
}

type denial struct {
	request            proto.Message
	matching, outsider string // the class
}

// VH-6: whoever may do nothing is refused by every method, and changes nothing.
func TestDenied(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a node")
	}
	c := testcluster.Start(t, 1)
	cl, ctx := openClient(t, c), testContext(t)
	for _, name := range []string{"nobody", "outsider"} {
		if _, err := cl.PutUser(ctx, client.User{Name: name, Password: "secret"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cl.SetPermission(ctx, client.Permission{User: "nobody", Configure: "^$", Write: "^$", Read: "^$"}); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.DeclareQueue(ctx, client.Queue{Name: "q"}); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.DeclareExchange(ctx, client.Exchange{Name: "x", Type: "topic"}); err != nil {
		t.Fatal(err)
	}
	before := stored(c)
	left := denials()
	eachMethod(func(service, method string, m protoreflect.MethodDescriptor) {
		name := service + "/" + method
		d, known := left[name]
		if !known {
			t.Errorf("%s: say in denials what it refuses", name)
			return
		}
		delete(left, name)
		for _, as := range []struct{ login, want string }{{"nobody:secret", d.matching}, {"outsider:secret", d.outsider}, {"", "ACCESS_REFUSED"}} {
			if got, err := invoke(t, c.Addrs()[0], as.login, m, d.request); got != as.want {
				t.Errorf("%s by %q: %q (%v), want %q", name, as.login, got, err, as.want)
			}
		}
	})
	for name := range left {
		t.Errorf("%s: no such method", name)
	}
	if after := stored(c); after != before {
		t.Errorf("there was\n%s\nthere is\n%s", before, after)
	}
}

// eachMethod calls f for every method of the API.
func eachMethod(f func(service, method string, m protoreflect.MethodDescriptor)) {
	protoregistry.GlobalFiles.RangeFilesByPackage("quorate.broker.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			s := file.Services().Get(i)
			for j := range s.Methods().Len() {
				f(string(s.Name()), string(s.Methods().Get(j).Name()), s.Methods().Get(j))
			}
		}
		return true
	})
}

// invoke sends one request on a connection of its own and returns the class of the error,
// or of that of the first response.
func invoke(t *testing.T, addr, login string, m protoreflect.MethodDescriptor, request proto.Message) (class string, err error) {
	t.Helper()
	opts := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if login != "" {
		opts = append(opts, grpc.WithPerRPCCredentials(basic(login)))
	}
	cc, err := grpc.NewClient(addr, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cc.Close() }() // nothing was kept
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	kind, err := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
	if err != nil {
		t.Fatal(err)
	}
	response := kind.New().Interface()
	path := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
	stream, err := cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, path)
	if err == nil {
		if err = errors.Join(stream.SendMsg(request), stream.CloseSend()); err == nil || errors.Is(err, io.EOF) {
			err = stream.RecvMsg(response)
		}
	}
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason(), err
		}
	}
	if err != nil {
		return "without a class", err
	}
	if r, ok := response.(*brokerv1.PublishResponse); ok {
		return r.GetResult().GetError().GetClass(), errors.New(r.GetResult().GetError().GetText())
	}
	return "", nil
}

// stored lists what the catalog of a cluster's first node has.
func stored(c *testcluster.Cluster) string {
	var b strings.Builder
	v := c.Cluster(0).View()
	for h := range v.VHosts() {
		fmt.Fprintf(&b, "vhost %+v\n", *h)
		for p := range v.Permissions(h.Name) {
			fmt.Fprintf(&b, "permission %+v\n", *p)
		}
		for p := range v.TopicPermissions(h.Name) {
			fmt.Fprintf(&b, "topic permission %+v\n", *p)
		}
		for _, operator := range []bool{false, true} {
			for p := range v.Policies(h.Name, operator) {
				fmt.Fprintf(&b, "policy %+v\n", *p)
			}
		}
		for p := range v.Parameters(h.Name) {
			fmt.Fprintf(&b, "parameter %+v\n", *p)
		}
	}
	for u := range v.Users() {
		fmt.Fprintf(&b, "user %+v\n", *u)
	}
	for p := range v.Parameters("") {
		fmt.Fprintf(&b, "parameter %+v\n", *p)
	}
	for x := range v.Exchanges() {
		fmt.Fprintf(&b, "exchange %s in %s\n", x.Name, x.VHost)
	}
	for q := range v.Queues() {
		fmt.Fprintf(&b, "queue %s in %s\n", q.Name, q.VHost)
	}
	for x := range v.Bindings() {
		fmt.Fprintf(&b, "binding %s %s %s in %s\n", x.Source, x.Destination, x.Key, x.VHost)
	}
	return b.String()
}
