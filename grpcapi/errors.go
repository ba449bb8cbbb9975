package grpcapi

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/broker/failure"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// errorDomain is the domain of ErrorInfo (C-4).
const errorDomain = "broker"

// code is the status code of an error's class (C-4).
func code(e *failure.Error) codes.Code {
	switch e.Class {
	case failure.NotFound:
		return codes.NotFound
	case failure.AccessRefused, failure.NotAllowed:
		if e.Unauthenticated {
			return codes.Unauthenticated
		}
		return codes.PermissionDenied
	case failure.ResourceLocked:
		return codes.FailedPrecondition
	case failure.PreconditionFailed:
		if e.State {
			return codes.FailedPrecondition
		}
		return codes.InvalidArgument
	case failure.NotImplemented:
		return codes.Unimplemented
	case failure.ResourceExhausted:
		return codes.ResourceExhausted
	case failure.Unavailable, failure.ConnectionForced:
		return codes.Unavailable
	case failure.Internal:
		return codes.Internal
	}
	return codes.Unknown
}

// metadata names the subject of the error (C-4); it leaves out empty parts.
func metadata(e *failure.Error) map[string]string {
	m := make(map[string]string, 5)
	for _, f := range [...]struct{ key, value string }{
		{"vhost", e.VHost}, {"kind", e.Kind}, {"name", e.Name}, {"arg", e.Arg}, {"value", e.Value},
	} {
		if f.value != "" {
			m[f.key] = valid(f.value)
		}
	}
	return m
}

// valid makes s a valid protobuf string.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// toStatus converts any error to a gRPC status.
func toStatus(err error) error {
	var e *failure.Error
	if err == nil {
		return nil
	}
	if !errors.As(err, &e) {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return status.FromContextError(err).Err()
		}
		if _, ok := status.FromError(err); ok {
			return err
		}
		return status.Error(codes.Internal, valid(err.Error()))
	}
	st := status.New(code(e), valid(e.Error()))
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: string(e.Class), Domain: errorDomain, Metadata: metadata(e)}}
	if e.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)})
	}
	if with, err := st.WithDetails(details...); err == nil {
		return with.Err()
	}
	return st.Err()
}

// errorDetail converts the error about one message of a stream.
func errorDetail(err error) *brokerv1.ErrorDetail {
	var e *failure.Error
	if !errors.As(err, &e) {
		return &brokerv1.ErrorDetail{Class: string(failure.Internal), Text: valid(err.Error())}
	}
	return &brokerv1.ErrorDetail{Class: string(e.Class), Text: valid(e.Error()), Metadata: metadata(e)}
}

// invalid returns the error about a request that breaks the API's rules.
func invalid(kind, arg, value, reason string) error {
	return &failure.Error{Class: failure.PreconditionFailed, Kind: kind, Arg: arg, Value: value, Reason: reason}
}

// unary makes a handler that logs the caller in before it reads the request, because a request may
// be as large as the largest message.
func (s *Server) unary(method string, of grpc.MethodHandler) grpc.MethodHandler {
	return func(srv any, ctx context.Context, _ func(any) error, _ grpc.UnaryServerInterceptor) (res any, err error) {
		defer s.recovered(ctx, method, &err)
		ctx, leave, err := s.admit(ctx, method)
		if err != nil {
			return nil, toStatus(s.b.Serving.Definite(ctx, err))
		}
		defer leave()
		ctx, end := s.keeping(ctx, method)
		defer end()
		r, err := s.receiver(ctx, method, true)
		if err != nil {
			return nil, toStatus(err)
		}
		res, err = of(srv, ctx, func(m any) error { return r.next(ctx, m) }, s.received)
		return res, toStatus(err)
	}
}

// received carries out a call whose request was read, with an audit record if it is a change.
func (s *Server) received(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (res any, err error) {
	act, changes := s.actOf(ctx, info.FullMethod, req)
	if !changes {
		return s.answer(ctx, req, info.FullMethod, next)
	}
	err = s.b.Audit.Audited(ctx, act, func(ctx context.Context) error {
		var err error
		res, err = s.answer(ctx, req, info.FullMethod, next)
		return err
	})
	return res, err
}

// answer carries out a call if the caller may make it.
func (s *Server) answer(ctx context.Context, req any, method string, next grpc.UnaryHandler) (res any, err error) {
	if err = s.permit(ctx, method, req); err == nil {
		res, err = s.metered(ctx, req, method, next)
	}
	return res, s.b.Serving.Definite(ctx, err)
}

// guarded registers services so that all their calls log in.
type guarded struct{ s *Server }

// RegisterService implements grpc.ServiceRegistrar.
func (g guarded) RegisterService(desc *grpc.ServiceDesc, impl any) {
	own := *desc
	own.Methods = slices.Clone(desc.Methods)
	for i := range own.Methods {
		m := &own.Methods[i]
		m.Handler = g.s.unary("/"+desc.ServiceName+"/"+m.MethodName, m.Handler)
	}
	g.s.grpc.RegisterService(&own, impl)
}

// stream is the interceptor of all streams. It logs in, ties the stream to the life of the login,
// checks the permission and, where the call changes something, has the audit record it. No error
// leaves without a status.
func (s *Server) stream(srv any, st grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer s.recovered(st.Context(), info.FullMethod, &err)
	ctx, leave, err := s.admit(st.Context(), info.FullMethod)
	if err != nil {
		return toStatus(s.b.Serving.Definite(ctx, err))
	}
	defer leave()
	ctx, end := s.keeping(ctx, info.FullMethod)
	defer end()
	var done func()
	if strings.HasPrefix(info.FullMethod, "/grpc.") { // health and reflection do not watch the server's life
		ctx, done = living(ctx)
	} else {
		ctx, done = s.whileLoggedIn(ctx)
	}
	defer done()
	run := func(ctx context.Context) error {
		err := s.permit(ctx, info.FullMethod, nil)
		if err == nil {
			var r *receiver
			if r, err = s.receiver(ctx, info.FullMethod, !info.IsClientStream); err == nil {
				err = next(srv, &loggedIn{ServerStream: st, ctx: ctx, receiver: r})
			}
		}
		return s.b.Serving.Definite(ctx, err)
	}
	if act, changes := s.actOf(ctx, info.FullMethod, nil); changes {
		return toStatus(s.b.Audit.Audited(ctx, act, run))
	}
	return toStatus(run(ctx))
}

// recovered turns a panic of one call into an INTERNAL error, and logs the stack.
func (s *Server) recovered(ctx context.Context, method string, err *error) {
	if p := recover(); p != nil {
		s.log.ErrorContext(ctx, "call panicked", slog.String("method", method), slog.Any("panic", p),
			slog.String("stack", string(debug.Stack())))
		*err = toStatus(&failure.Error{Class: failure.Internal, Reason: "the call failed because of a fault in the broker; its log has the details"})
	}
}
