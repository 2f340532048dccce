package main

import (
	"context"
	"fmt"
	"net"
	"os"
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
		port, err := freePort()
		if err != nil {
			return err
		}
		cmd := command("redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", folder, "--save", "",
			"--appendonly", "yes", "--appendfsync", sync)
		cmd.Dir = folder
		stop, err := startServer(m, os.Interrupt, cmd)
		if err != nil {
			return err
		}
		defer stop()
		address := fmt.Sprintf("127.0.0.1:%d", port)
		if err := eventually(ctx, func() error {
			c, err := net.Dial("tcp", address)
			if err == nil {
				err = c.Close()
			}
			return err
		}); err != nil {
			return err
		}
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
