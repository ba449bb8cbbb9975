package client

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Each type has every field of its message except the named ones, and no other field, so that a new field of the API is
// not forgotten here. A value that is translated there and back is unchanged.
func TestEveryFieldIsTranslated(t *testing.T) {
	for _, row := range []struct {
		own  any
		api  proto.Message
		less []string
	}{
		{QueueInfo{}, &brokerv1.Queue{}, nil},
		{QueueDeclared{}, &brokerv1.DeclareQueueResponse{}, nil},
		{DeleteQueueRequest{}, &brokerv1.DeleteQueueRequest{}, nil},
		{QueueDeleted{}, &brokerv1.DeleteQueueResponse{}, nil},
		{QueueRef{}, &brokerv1.GetQueueRequest{}, nil},
		{QueueRef{}, &brokerv1.PurgeQueueRequest{}, nil},
		{RetryDelayedRequest{}, &brokerv1.RetryDelayedRequest{}, nil},
		{Exchange{}, &brokerv1.DeclareExchangeRequest{}, []string{"durable"}},
		{ExchangeInfo{}, &brokerv1.Exchange{}, nil},
		{DeleteExchangeRequest{}, &brokerv1.DeleteExchangeRequest{}, nil},
		{ListQueueMembersRequest{}, &brokerv1.ListQueueMembersRequest{}, nil},
		{QueueMember{}, &brokerv1.QueueMember{}, nil},
		{TransferLeadershipRequest{}, &brokerv1.TransferLeadershipRequest{}, nil},
		{VHost{}, &brokerv1.Vhost{}, nil},
		{SetVHostLimitsRequest{}, &brokerv1.SetVhostLimitsRequest{}, nil},
		{User{}, &brokerv1.PutUserRequest{}, nil},
		{UserInfo{}, &brokerv1.User{}, nil},
		{SetUserLimitsRequest{}, &brokerv1.SetUserLimitsRequest{}, nil},
		{Permission{}, &brokerv1.Permission{}, nil},
		{TopicPermission{}, &brokerv1.TopicPermission{}, nil},
		{PermissionRef{}, &brokerv1.ClearPermissionRequest{}, nil},
		{TopicPermissionRef{}, &brokerv1.ClearTopicPermissionRequest{}, nil},
		{ListPermissionsRequest{}, &brokerv1.ListPermissionsRequest{}, nil},
		{ListPermissionsRequest{}, &brokerv1.ListTopicPermissionsRequest{}, nil},
		{Identity{}, &brokerv1.WhoAmIResponse{}, nil},
		{Token{}, &brokerv1.MintTokenResponse{}, nil},
		{Policy{}, &brokerv1.Policy{}, nil},
		{PolicyRef{}, &brokerv1.DeletePolicyRequest{}, nil},
		{ClusterStatus{}, &brokerv1.ClusterStatusResponse{}, nil},
		{FinalizeVersionRequest{}, &brokerv1.FinalizeVersionRequest{}, nil},
		{VersionFinalized{}, &brokerv1.FinalizeVersionResponse{}, nil},
		{Operation{}, &brokerv1.Operation{}, nil},
		{StartedOperation{}, &brokerv1.StartOperationResponse{}, nil},
		{ListOperationsRequest{}, &brokerv1.ListOperationsRequest{}, nil},
		{GrowQueuesRequest{}, &brokerv1.GrowQueuesRequest{}, nil},
		{ShrinkNodeRequest{}, &brokerv1.ShrinkNodeRequest{}, nil},
		{rebalance{}, &brokerv1.RebalanceQueuesRequest{}, nil},
		{rebalance{}, &brokerv1.RebalanceLeadersRequest{}, nil},
		{planRebalance{}, &brokerv1.PlanRebalanceRequest{}, nil},
		{AddMemberRequest{}, &brokerv1.AddMemberRequest{}, nil},
		{RemoveMemberRequest{}, &brokerv1.RemoveMemberRequest{}, nil},
		{ReplaceMemberRequest{}, &brokerv1.ReplaceMemberRequest{}, nil},
		{RemoveNodeRequest{}, &brokerv1.RemoveNodeRequest{}, nil},
		{ReplaceNodeRequest{}, &brokerv1.ReplaceNodeRequest{}, nil},
		{ForgetNodeRequest{}, &brokerv1.ForgetNodeRequest{}, nil},
		{drain{}, &brokerv1.DrainRequest{}, nil},
		{UndrainRequest{}, &brokerv1.UndrainRequest{}, nil},
		{PeekRequest{}, &brokerv1.PeekRequest{}, nil},
		{PeekedState{}, &brokerv1.PeekedMessage{}, []string{"message"}},
		{MoveMessagesRequest{}, &brokerv1.MoveMessagesRequest{}, nil},
		{RedriveMessagesRequest{}, &brokerv1.RedriveMessagesRequest{}, nil},
		{ExplainRoutingRequest{}, &brokerv1.ExplainRoutingRequest{}, nil},
		{RoutingExplained{}, &brokerv1.ExplainRoutingResponse{}, nil},
		{ExplainDeadLetterRequest{}, &brokerv1.ExplainDeadLetterRequest{}, nil},
		{DeadLetterExplained{}, &brokerv1.ExplainDeadLetterResponse{}, nil},
		{WatchClusterRequest{}, &brokerv1.WatchClusterRequest{}, nil},
		{ClusterSample{}, &brokerv1.WatchClusterResponse{}, nil},
		{WatchEventsRequest{}, &brokerv1.WatchEventsRequest{}, nil},
		{Event{}, &brokerv1.Event{}, nil},
		{TailAuditRequest{}, &brokerv1.TailAuditRequest{}, nil},
		{AuditTail{}, &brokerv1.TailAuditResponse{}, nil},
		{ListConnectionsRequest{}, &brokerv1.ListConnectionsRequest{}, nil},
		{ConnectionInfo{}, &brokerv1.Connection{}, nil},
		{ListConsumersRequest{}, &brokerv1.ListConsumersRequest{}, nil},
		{ConsumerInfo{}, &brokerv1.Consumer{}, nil},
		{CloseConnectionRequest{}, &brokerv1.CloseConnectionRequest{}, nil},
		{ImportedObject{}, &brokerv1.ImportedObject{}, nil},
		{ImportSummary{}, &brokerv1.ImportSummary{}, nil},
	} {
		compareFields(t, reflect.TypeOf(row.own), row.api.ProtoReflect().Descriptor(), row.less)
		full := reflect.New(reflect.TypeOf(row.own)).Elem()
		fillUp(full)
		there := row.api.ProtoReflect().New()
		if err := toProto(full, there); err != nil {
			t.Errorf("%s: %v", full.Type(), err)
			continue
		}
		back := reflect.New(full.Type()).Elem()
		fromProto(back, there)
		if !reflect.DeepEqual(full.Interface(), back.Interface()) {
			t.Errorf("%s came back as %+v, sent as %+v", full.Type(), back, full)
		}
	}
}

func compareFields(t *testing.T, own reflect.Type, m protoreflect.MessageDescriptor, less []string) {
	t.Helper()
	var names []string
	for i := range own.NumField() {
		name, ok := own.Field(i).Tag.Lookup(apiTag)
		if !ok {
			t.Errorf("%s.%s names no field of the API", own, own.Field(i).Name)
			continue
		}
		names = append(names, name)
		f := m.Fields().ByName(protoreflect.Name(name))
		if f == nil {
			t.Errorf("%s.%s: %s has no field %s", own, own.Field(i).Name, m.Name(), name)
			continue
		}
		of := own.Field(i).Type
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice && f.IsList() {
			of = of.Elem()
		}
		if of.Kind() == reflect.Struct && of != reflect.TypeFor[time.Time]() {
			compareFields(t, of, f.Message(), nil)
		}
	}
	for i := range m.Fields().Len() {
		if name := string(m.Fields().Get(i).Name()); !slices.Contains(names, name) && !slices.Contains(less, name) {
			t.Errorf("%s has no field for %s of %s", own, name, m.Name())
		}
	}
}

// fillUp gives every field a value that is not zero and can be sent.
func fillUp(v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *Table:
		*x = Table{"a": int64(1)}
		return
	case *time.Time:
		*x = time.UnixMilli(1_700_000_000_123)
		return
	case *time.Duration:
		*x = 1234 * time.Millisecond
		return
	case *UnknownArguments:
		*x = UnknownRefuse
		return
	case *OperationState:
		*x = OperationCancelled
		return
	case *QueuePart:
		*x = PartBacklog
		return
	case *ImportOutcome:
		*x = ImportDifferent
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillUp(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillUp(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fillUp(v.Index(i))
		}
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64, reflect.Int32:
		v.SetInt(-7)
	case reflect.Uint64, reflect.Uint32:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillUp(key)
		fillUp(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	default:
		panic("fillUp has no value of " + v.Type().String() + ": how does it travel?")
	}
}

// A value that the API cannot express is refused before any node is asked.
func TestTranslationRefuses(t *testing.T) {
	if err := toProto(reflect.ValueOf(PeekRequest{Part: "midst"}), new(brokerv1.PeekRequest).ProtoReflect()); err == nil {
		t.Error("an unknown word was taken")
	}
	if err := toProto(reflect.ValueOf(Policy{Definition: Table{"f": func() {}}}), new(brokerv1.Policy).ProtoReflect()); err == nil {
		t.Error("a function was taken as a value of a table")
	}
	if got := owned[Operation](&brokerv1.Operation{State: 77}).State; got != "77" {
		t.Errorf("a state of a newer broker is %q", got)
	}
}
