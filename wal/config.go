package wal

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/quorate/quorate/id"
)

// Defaults of Config.
const (
	DefaultSegmentBytes    = 64 << 20 // but at most a defaultSegmentShare of the file system
	DefaultMaxPendingBytes = 64 << 20
	DefaultTailBytes       = 64 << 20
	DefaultSpares          = 1
	DefaultLowBytes        = 1 << 30   // or less, see Config.LowBytes
	DefaultFloorBytes      = 256 << 20 // but at most a quarter of that
	DefaultSpaceInterval   = time.Second

	minSegmentBytes = 4 << 10
	// A small file system gets smaller segments: one is the least that comes back.
	defaultSegmentShare    = 64
	minDefaultSegmentBytes = 4 << 20
	// Of a file system a defaultLowShare is kept free, but minLowBytes at least, unless they are
	// more than a minLowShare: what is under way when publishes are refused has to fit in.
	defaultLowShare = 20
	minLowBytes     = 128 << 20
	minLowShare     = 4
)

// Config configures a Log. The zero value is ready to use.
type Config struct {
	// SegmentBytes is the size at which a segment is sealed; a larger entry gets a segment of its
	// own. Zero means DefaultSegmentBytes, or a 64th of the file system, at least 4 MiB, if that is
	// less. Smaller segments need more syncs; with larger ones space is freed later, and a restart
	// after a crash reads more.
	SegmentBytes int64
	// MaxPendingBytes limits the bytes that wait for the disk; appends block above it. Zero means
	// DefaultMaxPendingBytes.
	MaxPendingBytes int64
	// TailBytes limits the recent entries of all groups that are kept in memory. Zero means
	// DefaultTailBytes; negative keeps none.
	TailBytes int64
	// Spares is how many emptied segments are kept for reuse, which is faster than growing a file.
	// Zero means DefaultSpares; negative none.
	Spares int
	// BudgetBytes is the size of the log on disk above which segments are compacted even if they
	// are up to three quarters full. Zero means no budget.
	BudgetBytes int64
	// LowBytes is the free space of the file system below which Pressure is Low: the owner should
	// refuse publishes. Zero means DefaultLowBytes, or a twentieth of the file system if that is
	// less, but at least 128 MiB or a quarter of it; negative turns it off.
	LowBytes int64
	// FloorBytes is the free space below which the log gives up its reserve, which is as large, but
	// at most 64 MiB. Below it without a reserve Pressure is Floor: the node should transfer its
	// leaders and stop its members before a write fails. Zero means DefaultFloorBytes, or a quarter
	// of what zero means for LowBytes if that is less, and never more than LowBytes; negative turns
	// it off.
	FloorBytes int64
	// SpaceInterval is the interval between checks of free space. Zero means DefaultSpaceInterval;
	// negative: only when segments begin.
	SpaceInterval time.Duration
	// OnFailure is called once, when a write, sync or change of names has failed; every later call
	// returns that error. It may call the log but must not wait for it.
	OnFailure func(error)
	// OnLost is called when an entry of a group cannot be read: the member must no longer take part
	// in its group. It must return soon.
	OnLost func(id.GroupID, error)
	// OnPressure is called when Pressure changes. It must return soon.
	OnPressure func(Pressure)
	// OnOpen is called by Open before the first segment and after each recovered one, with the
	// number of all segments.
	OnOpen func(done, total int)
	// Mark is the newest stored Mark of this log: if the log ends before it, there is a Gap. The
	// zero Mark means that none was stored.
	Mark Mark
	// Logger receives messages for operators. Nil discards them.
	Logger *slog.Logger

	manual     bool // tests compact by hand
	batchBytes int  // a batch that has as many takes no more; tests make it small
	// sharedBytes is how large an entry's data must be to be written without a copy; tests make it small.
	sharedBytes int
	// markAfter is how long nothing must have been written before the end is marked.
	markAfter time.Duration
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.SegmentBytes < minSegmentBytes || c.SegmentBytes > MaxRecordBytes {
		errs = append(errs, fmt.Errorf("wal: SegmentBytes is %d, must be %d to %d", c.SegmentBytes, minSegmentBytes, MaxRecordBytes))
	}
	if c.MaxPendingBytes < 1 || c.MaxPendingBytes > MaxRecordBytes {
		errs = append(errs, fmt.Errorf("wal: MaxPendingBytes is %d, must be 1 to %d", c.MaxPendingBytes, MaxRecordBytes))
	}
	if c.BudgetBytes < 0 {
		errs = append(errs, fmt.Errorf("wal: BudgetBytes is %d, must not be negative", c.BudgetBytes))
	}
	if c.LowBytes > 0 && c.FloorBytes > c.LowBytes {
		errs = append(errs, fmt.Errorf("wal: FloorBytes %d is above LowBytes %d", c.FloorBytes, c.LowBytes))
	}
	return errors.Join(errs...)
}

// orDefault takes 0 for the default.
func orDefault[T int | int64 | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// withDefaults is called after Validate. Spares below 0 mean none.
func (c Config) withDefaults() Config {
	c.SegmentBytes = orDefault(c.SegmentBytes, DefaultSegmentBytes)
	c.MaxPendingBytes = orDefault(c.MaxPendingBytes, DefaultMaxPendingBytes)
	c.TailBytes = orDefault(c.TailBytes, DefaultTailBytes)
	c.Spares = max(0, orDefault(c.Spares, DefaultSpares))
	c.SpaceInterval = orDefault(c.SpaceInterval, DefaultSpaceInterval)
	c.batchBytes = orDefault(c.batchBytes, batchBytes)
	c.sharedBytes = orDefault(c.sharedBytes, sharedBytes)
	c.markAfter = orDefault(c.markAfter, markAfter)
	if c.OnOpen == nil {
		c.OnOpen = func(int, int) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
