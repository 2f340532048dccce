package durable

import (
	"log/slog"
	"time"

	"github.com/lazuli-storage/lazuli/workers"
)

// Options are the settings of an [Engine] or a [Client]. The zero value of a field means its default.
type Options struct {
	// Storage is the account. Its clients of all three services are needed. Default, for an engine: that of the app.
	Storage *workers.Storage
	// Hub is the hub's name: 3 to 45 letters and digits, the first one a letter. Default "default".
	Hub string
	// Partitions is the number of control queues of a hub that is created, 1 to 16. An existing hub keeps its own. Default
	// 4.
	Partitions int
	// Worker names this process to people. It must differ between processes. Default: host name, process ID and a random
	// number.
	Worker string
	// LeaseDuration is the time that a partition stays with a process that no longer renews its lease, 15 to 60 s. Default
	// 30 s.
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
	// MaxOrchestrations bounds the workflows that run at once in this process, apart from those that wait. Default 32.
	MaxOrchestrations int
	// MaxActivities bounds the activities that run at once in this process. Default 32.
	MaxActivities int
	// MaxEntities bounds the entities that run at once in this process. Default 32.
	MaxEntities int
	// Clock is for tests. Default: the system's, or for an engine that of the app.
	Clock workers.Clock
	// Logger takes what the engine reports. Default: slog.Default, or for an engine that of the app.
	Logger *slog.Logger
}
