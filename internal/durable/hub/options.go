package hub

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/hubname"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/workers"
)

// Options are the settings of a [Backend]. The zero value of a field means its default.
type Options struct {
	// Storage is the account. Its clients of all three services are needed.
	Storage *workers.Storage
	// Hub is the hub's name: 3 to 45 letters and digits, the first one a letter. Default "default".
	Hub string
	// Partitions is the number of control queues of a hub that is created, 1 to 16. An existing hub keeps its own.
	// Default 4.
	Partitions int
	// Worker names this process to people. It must differ between processes. Default: host name, process ID and a random
	// number.
	Worker string
	// LeaseDuration is the time that a partition stays with a process that no longer renews its lease, 15 to 60 s.
	// Default 30 s.
	LeaseDuration time.Duration
	// Visibility is the time that a message stays hidden once its receiver has died, at least 1 s. Default 30 s.
	Visibility time.Duration
	// MaxPolling is the longest pause between two looks at an empty queue of a service that does not let requests wait.
	// Default 10 s, or 1 s if the account is local.
	MaxPolling time.Duration
	// MaxPayload bounds one input, output or event, in bytes. Default 10 MiB.
	MaxPayload int
	// MaxBuffered bounds the messages of one partition that this process has received and not yet handled. Default 256.
	MaxBuffered int
	// CacheEvents bounds the history events that are kept in memory to save reading them again. Default 50,000; negative:
	// none.
	CacheEvents int
	// Clock is for tests. Default: the system's.
	Clock workers.Clock
	// Logger is the position at which the backend reports. Default: slog.Default.
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.Storage == nil || o.Storage.Tables == nil || o.Storage.Queues == nil || o.Storage.Blobs == nil {
		return o, errors.New("durable: Options.Storage needs endpoints for tables, queues and blobs")
	}
	set(&o.Hub, hubname.Default)
	set(&o.Partitions, 4)
	set(&o.LeaseDuration, 30*time.Second)
	set(&o.Visibility, 30*time.Second)
	set(&o.MaxPayload, 10<<20)
	set(&o.MaxBuffered, 256)
	set(&o.CacheEvents, 50_000)
	// Requests to a local server cost nothing, so an idle worker may ask it more often than a service that bills them.
	if o.Storage.Local {
		set(&o.MaxPolling, time.Second)
	}
	set(&o.MaxPolling, 10*time.Second)
	if o.Worker == "" {
		o.Worker = record.WorkerName()
	}
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if err := hubname.Check(o.Hub); err != nil {
		return o, err
	}
	switch {
	case o.Partitions < 1 || o.Partitions > 16:
		return o, fmt.Errorf("durable: Options.Partitions %d is not within 1 to 16", o.Partitions)
	case o.LeaseDuration < 15*time.Second || o.LeaseDuration > time.Minute:
		return o, fmt.Errorf("durable: Options.LeaseDuration %v is not within 15 s to 60 s", o.LeaseDuration)
	case o.Visibility < time.Second || o.Visibility > time.Hour:
		return o, fmt.Errorf("durable: Options.Visibility %v is not within 1 s to 1 h", o.Visibility)
	}
	return o, nil
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
