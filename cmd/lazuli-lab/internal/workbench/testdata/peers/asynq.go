package main

import (
	"context"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lazuli-storage/lazuli/cmd/lazuli-lab/internal/workbench"
)

// asynqJobs is asynq on a Redis.
type asynqJobs struct {
	redis  asynq.RedisClientOpt
	client *asynq.Client
}

// asynqOnRedis measures asynq with its own settings, on a Redis that writes its append-only file and syncs it always,
// or every second.
func asynqOnRedis(sync string) func(context.Context, string, *workbench.Meter) error {
	return func(ctx context.Context, folder string, m *workbench.Meter) error {
		address, stop, err := startRedis(ctx, folder, sync, m)
		if err != nil {
			return err
		}
		defer stop()
		j := &asynqJobs{redis: asynq.RedisClientOpt{Addr: address, PoolSize: 2 * workbench.Parallel}}
		j.client = asynq.NewClient(j.redis)
		defer j.client.Close()
		return m.Jobs(ctx, j)
	}
}

// Put implements workbench.Jobs.
func (j *asynqJobs) Put(ctx context.Context, queue string, due time.Time) error {
	options := []asynq.Option{asynq.Queue(queue)}
	if !due.IsZero() {
		options = append(options, asynq.ProcessAt(due))
	}
	_, err := j.client.EnqueueContext(ctx, asynq.NewTask("job", workbench.Body), options...)
	return err
}

// Work implements workbench.Jobs.
func (j *asynqJobs) Work(_ context.Context, queue string, handle func()) (*workbench.Worker, error) {
	s := asynq.NewServer(j.redis, asynq.Config{Concurrency: workbench.Parallel, Queues: map[string]int{queue: 1},
		LogLevel: asynq.FatalLevel})
	stop := func(context.Context) error { s.Shutdown(); return nil }
	return &workbench.Worker{Stop: stop, Idle: idleFor(time.Second)},
		s.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { handle(); return nil }))
}
