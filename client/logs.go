package client

import (
	"context"
	"reflect"
	"time"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// TailLogRequest selects lines of a node's log.
type TailLogRequest struct {
	// Level is the lowest one: debug, info, warn or error; empty: all.
	Level string `api:"level"`
	// Limit of the lines that are there already; 0: 100.
	Limit uint32 `api:"limit"`
	// Follow continues with new lines as they are written.
	Follow bool `api:"follow"`
}

// LogLine is a line of a node's log.
type LogLine struct {
	// Number counts the node's lines since its start, from 1.
	Number uint64    `api:"number"`
	At     time.Time `api:"at_ms"` // by the clock of the node
	// Level is debug, info, warn or error.
	Level   string `api:"level"`
	Message string `api:"message"`
	// Attributes are key=value with spaces between.
	Attributes string `api:"attributes"`
}

// LogLines are lines of one node, oldest first.
type LogLines struct {
	Node  string    `api:"node"`
	Lines []LogLine `api:"lines"`
}

// LogLevel is the level of a node's log.
type LogLevel struct {
	Node  string `api:"node"`
	Level string `api:"level"`
	// Settings is the level of the node's settings.
	Settings string `api:"settings"`
	// Until is when the settings' level is in force again; zero: it is.
	Until time.Time `api:"until_ms"`
}

// SetLogLevelRequest is another level for a time.
type SetLogLevelRequest struct {
	// Level is debug, info, warn or error; empty: that of the settings.
	Level    string        `api:"level"`
	Duration time.Duration `api:"duration_ms"` // 0: 15 minutes; at most a day
}

// TailLog calls seen with the newest lines of the log of the node that serves the call and, with Follow, with new ones
// until ctx ends or seen fails. It does not continue on another node: a client for one node has its address alone, and
// FixedAddresses.
func (c *Client) TailLog(ctx context.Context, r TailLogRequest, seen func(LogLines) error) error {
	return c.try(ctx, func(ctx context.Context, n *node) error {
		q := new(brokerv1.TailLogRequest)
		if err := toProto(reflect.ValueOf(r), q.ProtoReflect()); err != nil {
			return err
		}
		stream, err := n.logs.TailLog(ctx, q)
		if err != nil {
			return err
		}
		return receive(stream, func(x *brokerv1.TailLogResponse) error { return seen(owned[LogLines](x)) })
	})
}

// LogLevel returns the level of the log of the node that serves the call.
func (c *Client) LogLevel(ctx context.Context) (LogLevel, error) {
	return ask[LogLevel](ctx, c, nothing{}, logs, brokerv1.LogsClient.GetLogLevel)
}

// SetLogLevel changes the level of the log of the node that serves the call, for a time.
func (c *Client) SetLogLevel(ctx context.Context, r SetLogLevelRequest) (LogLevel, error) {
	return ask[LogLevel](ctx, c, r, logs, brokerv1.LogsClient.SetLogLevel)
}
