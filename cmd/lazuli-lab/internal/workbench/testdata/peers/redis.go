package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lazuli-storage/lazuli/cmd/lazuli-lab/internal/workbench"
)

// startRedis starts a Redis that writes its append-only file and syncs it always, or every second.
func startRedis(ctx context.Context, folder, sync string, m *workbench.Meter) (address string, stop func(), err error) {
	port, err := freePort()
	if err != nil {
		return "", nil, err
	}
	cmd := command("redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", folder, "--save", "",
		"--appendonly", "yes", "--appendfsync", sync)
	cmd.Dir = folder
	if stop, err = startServer(m, os.Interrupt, cmd); err != nil {
		return "", nil, err
	}
	address = fmt.Sprintf("127.0.0.1:%d", port)
	if err := eventually(ctx, func() error {
		c, err := net.Dial("tcp", address)
		if err == nil {
			err = c.Close()
		}
		return err
	}); err != nil {
		stop()
		return "", nil, err
	}
	return address, stop, nil
}

// stream is a stream of Redis with a consumer group.
type stream struct{ client *redis.Client }

const streamKey, streamGroup = "work", "workers"

// redisStreams measures a stream. A message that is acknowledged is deleted as well: the stream would keep it.
func redisStreams(ctx context.Context, folder string, m *workbench.Meter) error {
	address, stop, err := startRedis(ctx, folder, "always", m)
	if err != nil {
		return err
	}
	defer stop()
	s := stream{redis.NewClient(&redis.Options{Addr: address, PoolSize: workbench.Parallel})}
	defer s.client.Close()
	if err := s.client.XGroupCreateMkStream(ctx, streamKey, streamGroup, "0").Err(); err != nil {
		return err
	}
	return measureMessages(ctx, m, s)
}

// put implements messages by a pipeline of XADD.
func (s stream) put(ctx context.Context, _, n int) error {
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for range n {
			p.XAdd(ctx, &redis.XAddArgs{Stream: streamKey, Values: []string{"body", noise}})
		}
		return nil
	})
	return err
}

// take implements messages.
func (s stream) take(ctx context.Context, conn, n int) (int, error) {
	list, err := s.client.XReadGroup(ctx, &redis.XReadGroupArgs{Group: streamGroup, Consumer: fmt.Sprint("c", conn),
		Streams: []string{streamKey, ">"}, Count: int64(n), Block: -1}).Result()
	if err == redis.Nil {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var ids []string
	for _, message := range list[0].Messages {
		if body, _ := message.Values["body"].(string); len(body) != itemSize {
			return 0, fmt.Errorf("message %s is not what was put", message.ID)
		}
		ids = append(ids, strings.Clone(message.ID))
	}
	_, err = s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.XAck(ctx, streamKey, streamGroup, ids...)
		p.XDel(ctx, streamKey, ids...)
		return nil
	})
	return len(ids), err
}
