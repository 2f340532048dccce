package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/lazuli-storage/lazuli/cmd/lazuli-lab/internal/workbench"
)

// quorumQueue is a quorum queue of one node, which writes to a log and syncs it as it does among several.
type quorumQueue struct{ conns []*rabbitConn }

// rabbitConn is a connection with a channel for what it puts, and one for what it takes.
type rabbitConn struct {
	conn        *amqp.Connection
	puts, takes *amqp.Channel
	deliveries  <-chan amqp.Delivery // of takes, nil before the first take
}

const rabbitQueue = "work"

// startRabbitMQ starts a node with its own port mapper, whose usual one would outlive it.
func startRabbitMQ(ctx context.Context, folder string, m *workbench.Meter) (url string, stop func(), err error) {
	var ports [3]int
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return "", nil, err
		}
	}
	environment := append(os.Environ(), "HOME="+folder, "RABBITMQ_NODENAME=peers@localhost",
		fmt.Sprint("RABBITMQ_NODE_PORT=", ports[0]), fmt.Sprint("RABBITMQ_DIST_PORT=", ports[1]),
		fmt.Sprint("ERL_EPMD_PORT=", ports[2]), "ERL_EPMD_ADDRESS=127.0.0.1", "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
		"RABBITMQ_MNESIA_BASE="+filepath.Join(folder, "mnesia"), "RABBITMQ_LOG_BASE="+filepath.Join(folder, "log"),
		"RABBITMQ_PID_FILE="+filepath.Join(folder, "pid"),
		"RABBITMQ_CONFIG_FILE="+filepath.Join(folder, "rabbitmq"),
		"RABBITMQ_ENABLED_PLUGINS_FILE="+filepath.Join(folder, "enabled_plugins"))
	mapper := command("epmd", "-port", ports[2], "-address", "127.0.0.1")
	mapper.Env, mapper.SysProcAttr = environment, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := mapper.Start(); err != nil {
		return "", nil, err
	}
	// The script of Debian's package that stands in the PATH changes the user.
	cmd := command("/usr/lib/rabbitmq/bin/rabbitmq-server")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = folder, environment, &syscall.SysProcAttr{Setpgid: true}
	if _, err = startServer(m, os.Interrupt, cmd); err != nil {
		_ = mapper.Process.Kill()
		return "", nil, err
	}
	stop = func() {
		// The script and the processes that it has started. What they have written is thrown away.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		_ = mapper.Process.Kill()
		_ = mapper.Wait()
	}
	url = fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d/", ports[0])
	if err := eventually(ctx, func() error {
		c, err := amqp.Dial(url)
		if err == nil {
			err = c.Close()
		}
		return err
	}); err != nil {
		stop()
		return "", nil, err
	}
	return url, stop, nil
}

// rabbitQueues measures a quorum queue. A put ends with the confirmation. An acknowledgement has none in the protocol:
// the server syncs it after the client has gone on.
func rabbitQueues(ctx context.Context, folder string, m *workbench.Meter) error {
	url, stop, err := startRabbitMQ(ctx, folder, m)
	if err != nil {
		return err
	}
	defer stop()
	var q quorumQueue
	for range workbench.Parallel {
		c := &rabbitConn{}
		if c.conn, err = amqp.Dial(url); err != nil {
			return err
		}
		defer c.conn.Close()
		if c.puts, err = c.conn.Channel(); err != nil {
			return err
		}
		if err := c.puts.Confirm(false); err != nil {
			return err
		}
		q.conns = append(q.conns, c)
	}
	if _, err := q.conns[0].puts.QueueDeclare(rabbitQueue, true, false, false, false,
		amqp.Table{"x-queue-type": "quorum"}); err != nil {
		return err
	}
	return measureMessages(ctx, m, &q)
}

// put implements messages.
func (q *quorumQueue) put(ctx context.Context, conn, n int) error {
	sent := make([]*amqp.DeferredConfirmation, n)
	for i := range sent {
		var err error
		if sent[i], err = q.conns[conn].puts.PublishWithDeferredConfirmWithContext(ctx, "", rabbitQueue, true, false,
			amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(noise)}); err != nil {
			return err
		}
	}
	for _, s := range sent {
		if ok, err := s.WaitContext(ctx); err != nil || !ok {
			return errors.Join(errors.New("a message was not confirmed"), err)
		}
	}
	return nil
}

// take implements messages. The server pushes up to batchOf messages ahead, as it does for most of its users.
func (q *quorumQueue) take(ctx context.Context, conn, n int) (int, error) {
	c := q.conns[conn]
	if c.deliveries == nil {
		if err := c.consume(); err != nil {
			return 0, err
		}
	}
	var last amqp.Delivery
	got := 0
	for ; got < n; got++ {
		// The first one is waited for; more are taken if they are there.
		wait := idle
		if got > 0 {
			wait = 0
		}
		d, ok := next(ctx, c.deliveries, wait)
		if !ok {
			break
		}
		if len(d.Body) != itemSize {
			return 0, errors.New("a message is not what was put")
		}
		last = d
	}
	if got == 0 {
		return 0, ctx.Err()
	}
	return got, last.Ack(true) // and those before it
}

func (c *rabbitConn) consume() (err error) {
	if c.takes, err = c.conn.Channel(); err != nil {
		return err
	}
	if err = c.takes.Qos(batchOf, 0, false); err != nil {
		return err
	}
	c.deliveries, err = c.takes.Consume(rabbitQueue, "", false, false, false, false, nil)
	return err
}

// idle is the time without a delivery after which a queue counts as empty.
const idle = time.Second

// next returns the next delivery, if there is one within a time.
func next(ctx context.Context, deliveries <-chan amqp.Delivery, wait time.Duration) (d amqp.Delivery, ok bool) {
	if wait == 0 {
		select {
		case d, ok = <-deliveries:
		default:
		}
		return d, ok
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case d, ok = <-deliveries:
	case <-timer.C:
	case <-ctx.Done():
	}
	return d, ok
}
