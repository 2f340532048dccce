package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/cmd/lazuli-lab/internal/workbench"
)

// natsArgument makes the program a NATS server: port:folder follows.
const natsArgument = "serve-nats"

// serveNATS serves until the process is told to end. JetStream syncs every message and acknowledgement.
func serveNATS(at string) error {
	port, folder, _ := strings.Cut(at, ":")
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: number, JetStream: true, StoreDir: folder,
		SyncAlways: true, NoSigs: true})
	if err != nil {
		return err
	}
	s.Start()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

// streams is JetStream, with a stream for each queue.
type streams struct {
	js    jetstream.JetStream
	count atomic.Int64

	mu   sync.Mutex // guards made
	made map[string]bool
}

// jetStream measures jobs in streams of a NATS server in a process of its own.
func jetStream(ctx context.Context, folder string, m *workbench.Meter) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := command(self, natsArgument, fmt.Sprintf("%d:%s", port, folder))
	cmd.Dir = folder
	stop, err := startServer(m, os.Interrupt, cmd)
	if err != nil {
		return err
	}
	defer stop()
	var conn *nats.Conn
	if err := eventually(ctx, func() (err error) {
		conn, err = nats.Connect(fmt.Sprintf("nats://127.0.0.1:%d", port))
		return err
	}); err != nil {
		return err
	}
	defer conn.Close()
	s := &streams{made: map[string]bool{}}
	if s.js, err = jetstream.New(conn); err != nil {
		return err
	}
	return m.Jobs(ctx, s)
}

// stream makes the stream of a queue.
func (s *streams) stream(ctx context.Context, queue string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made[queue] {
		return nil
	}
	_, err := s.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: queue, Subjects: []string{queue + ".>"},
		Retention: jetstream.WorkQueuePolicy, AllowMsgSchedules: true})
	s.made[queue] = err == nil
	return err
}

// Put implements workbench.Jobs.
func (s *streams) Put(ctx context.Context, queue string, due time.Time) error {
	if err := s.stream(ctx, queue); err != nil {
		return err
	}
	subject, options := queue+".job", []jetstream.PublishOpt(nil)
	if !due.IsZero() { // a subject has one schedule
		options = []jetstream.PublishOpt{jetstream.WithScheduleAt(due), jetstream.WithScheduleTarget(subject)}
		subject = fmt.Sprintf("%s.later.%d", queue, s.count.Add(1))
	}
	_, err := s.js.Publish(ctx, subject, workbench.Body, options...)
	return err
}

// Work implements workbench.Jobs.
func (s *streams) Work(ctx context.Context, queue string, handle func()) (*workbench.Worker, error) {
	if err := s.stream(ctx, queue); err != nil {
		return nil, err
	}
	c, err := s.js.CreateOrUpdateConsumer(ctx, queue, jetstream.ConsumerConfig{Durable: "worker",
		FilterSubject: queue + ".job", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		return nil, err
	}
	var working sync.WaitGroup
	room := make(chan struct{}, workbench.Parallel)
	consuming, err := c.Consume(func(m jetstream.Msg) {
		room <- struct{}{}
		working.Go(func() {
			defer func() { <-room }()
			handle()
			if err := m.DoubleAck(context.WithoutCancel(ctx)); err != nil {
				fmt.Fprintln(os.Stderr, "acknowledge:", err)
			}
		})
	})
	if err != nil {
		return nil, err
	}
	stop := func(context.Context) error {
		consuming.Drain()
		<-consuming.Closed()
		working.Wait()
		return nil
	}
	return &workbench.Worker{Stop: stop, Idle: idleFor(20 * time.Millisecond)}, nil
}
