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

// Options are the settings of a [Backend]. They are those of durable.Options, where each field is explained; Storage is
// needed here.
type Options struct {
	Storage           *workers.Storage
	Hub               string
	Partitions        int
	Worker            string
	LeaseDuration     time.Duration
	Visibility        time.Duration
	MaxPolling        time.Duration
	MaxPayload        int
	MaxBuffered       int
	CacheEvents       int
	MaxOrchestrations int
	MaxActivities     int
	MaxEntities       int
	Clock             workers.Clock
	Logger            *slog.Logger
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
	set(&o.MaxOrchestrations, 32)
	set(&o.MaxActivities, 32)
	set(&o.MaxEntities, 32)
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
