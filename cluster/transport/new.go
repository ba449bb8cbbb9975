package transport

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"

	"github.com/quorate/quorate/cluster/frame"
	"github.com/quorate/quorate/cluster/pulse"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/grpcmem"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// maxHeaderBytes is the size of a call's metadata.
const maxHeaderBytes = 64 << 10

// New returns a Mux without peers.
func New(c Config) (*Mux, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	if c.Calls == nil {
		c.Calls = nodev1.UnimplementedNodeServer{}
	}
	memory := &grpcmem.Pool{}
	m := &Mux{}
	m.local = local{
		config: c, log: c.Logger, identity: newIdentity(&c), codec: frame.NewCodec(memory), memory: memory, newEpoch: m.dropOlder,
		refusals:  refusals{node: c.Node, log: c.Logger, logged: map[string]bool{}},
		epochs:    epochs{newest: map[id.NodeID]id.Epoch{}},
		processes: processes{held: map[id.NodeID]*held{}},
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.pulses = pulse.New(pulse.Config{
		Life: m.ctx, Node: c.Node, Every: c.HeartbeatEvery, Timeout: c.PingTimeout, Heartbeats: c.Heartbeats, Clock: c.Clock,
	}, m.overdue)
	m.init(&m.local)
	m.groups.l, m.groups.of = &m.local, map[id.GroupID]*group{}
	m.accepted.init()
	m.server = grpc.NewServer(
		grpc.Creds(m.credentials()),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.StreamInterceptor(m.admitStream),
		grpc.MaxRecvMsgSize(c.MaxFrameBytes+frameOverheadBytes),
		grpc.MaxSendMsgSize(c.MaxFrameBytes+frameOverheadBytes),
		grpc.ForceServerCodecV2(m.codec),
		grpc.InitialWindowSize(streamWindowBytes),
		grpc.InitialConnWindowSize(connWindowBytes),
		grpc.ReadBufferSize(socketBufferBytes),
		grpc.WriteBufferSize(socketBufferBytes),
		experimental.BufferPool(memory),
		grpc.ConnectionTimeout(c.DialTimeout),
		// Heartbeats and the opener's pings notice a frozen peer first; this clears up the accepted
		// end, with more patience, because a machine that is busy for a moment is not frozen.
		// While the opener's pings come, it sends none. gRPC does not go below a second here.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: max(2*c.PingEvery, time.Second), Timeout: 3 * c.PingTimeout}),
		grpc.WaitForHandlers(true),
	)
	nodev1.RegisterNodeServer(admitting{m}, service{NodeServer: c.Calls, m: m})
	return m, nil
}
