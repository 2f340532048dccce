package bench

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
)

const messageSize = 1 << 10 // bytes of message text

// messageSet is a queue held at a given depth.
type messageSet struct {
	queue string
	// taken counts the messages deleted since the depth was last restored.
	taken atomic.Int64
}

func queueWorkloads() []*Workload {
	return []*Workload{{
		Name: "queue-put", About: "Put Message, 1 KiB of text, all connections into one queue",
		Bytes: messageSize,
		prepare: func(e *env) error {
			_, err := e.createQueue("bench-put-" + e.run)
			return err
		},
		worker: func(e *env, i int) worker { return newPutter(e, "bench-put-"+e.run, i) },
	}, {
		Name: "queue-get-delete", About: "cycles of Get Messages (one message) and Delete Message; the depth is restored " +
			"between slices",
		prepare: func(e *env) error { return e.needMessages() },
		worker:  func(e *env, _ int) worker { return newTaker(e, e.messages) },
		between: func(e *env) error { return e.refillMessages() },
	}, {
		Name: "queue-turnover", About: "cycles of Put, Get Messages (one message) and Delete Message, at the preloaded depth",
		Extra:   true,
		prepare: func(e *env) error { return e.needMessages() },
		worker:  func(e *env, i int) worker { return newTurner(e, e.messages, i) },
	}, {
		Name: "queue-turnover-100", About: "the same at a depth of 100 messages", Extra: true,
		prepare: func(e *env) error { return e.needShallow() },
		worker:  func(e *env, i int) worker { return newTurner(e, e.shallow, i) },
	}}
}

func (e *env) createQueue(name string) (string, error) {
	create := NewRequest(Queue, "PUT", "create", 201)
	create.Path = []byte("/" + name)
	if err := e.once(create); err != nil {
		return "", fmt.Errorf("creating queue %s: %w", name, err)
	}
	drop := NewRequest(Queue, "DELETE", "drop", 204)
	drop.Path = create.Path
	e.onCleanup(drop)
	return name, nil
}

func (e *env) needMessages() error {
	if e.messages != nil {
		return nil
	}
	name, err := e.createQueue("bench-get-" + e.run)
	if err != nil {
		return err
	}
	e.messages = &messageSet{queue: name}
	return e.putMessages(e.messages, max(e.preload.Messages, len(e.conns)))
}

// needShallow makes a queue of 100 messages.
func (e *env) needShallow() error {
	name, err := e.createQueue("bench-shallow-" + e.run)
	if err != nil {
		return err
	}
	e.shallow = &messageSet{queue: name}
	return e.putMessages(e.shallow, 100)
}

// refillMessages puts as many messages as were taken.
func (e *env) refillMessages() error {
	return e.putMessages(e.messages, int(e.messages.taken.Swap(0)))
}

func (e *env) putMessages(set *messageSet, n int) error {
	return load(e, "messages", n,
		func(conn int) *putter { return newPutter(e, set.queue, conn) },
		func(c *Conn, p *putter, _ int) error { return p.do(c) })
}

// putter puts messages into one queue.
type putter struct{ req *Request }

func newPutter(e *env, queue string, conn int) *putter {
	w := &putter{NewRequest(Queue, "POST", "put", 201, Field{"Content-Type", "application/xml"})}
	w.req.Path = []byte("/" + queue + "/messages")
	rng := e.rand(conn)
	b := []byte("<QueueMessage><MessageText>")
	for range messageSize {
		b = append(b, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[rng.IntN(64)])
	}
	w.req.Body = append(b, "</MessageText></QueueMessage>"...)
	return w
}

func (w *putter) do(c *Conn) error {
	_, err := c.Do(w.req)
	return err
}

// taker gets one message and deletes it.
type taker struct {
	get, del *Request
	set      *messageSet
	floor    bool
}

var errNoReceipt = errors.New("message without id or pop receipt")

func newTaker(e *env, set *messageSet) *taker {
	w := &taker{
		get:   NewRequest(Queue, "GET", "get", 200),
		del:   NewRequest(Queue, "DELETE", "delete", 204),
		set:   set,
		floor: e.target.samples != nil,
	}
	w.get.Path = []byte("/" + set.queue + "/messages")
	w.get.Query = []Param{{"numofmessages", []byte("1")}, {"visibilitytimeout", []byte("600")}}
	w.get.Keep = true
	w.del.Query = []Param{{Name: "popreceipt"}}
	return w
}

func (w *taker) do(c *Conn) error {
	res, err := c.Do(w.get)
	if err != nil {
		return err
	}
	if !bytes.Contains(res.Body, []byte("<QueueMessage>")) {
		return errDone
	}
	id, receipt := textAfter(res.Body, "<MessageId>"), textAfterN(res.Body, "<PopReceipt>", 1024)
	if len(id) == 0 || len(receipt) == 0 {
		return errNoReceipt
	}
	p := append(w.del.Path[:0], w.get.Path...)
	p = append(p, '/')
	w.del.Path = append(p, id...)
	w.del.Query[0].Value = append(w.del.Query[0].Value[:0], receipt...)
	if !w.floor {
		w.set.taken.Add(1)
	}
	_, err = c.Do(w.del)
	return err
}

// turner puts a message, gets the queue's first, and deletes that.
type turner struct {
	put  *putter
	take *taker
}

func newTurner(e *env, set *messageSet, conn int) *turner {
	return &turner{newPutter(e, set.queue, conn), newTaker(e, set)}
}

func (w *turner) do(c *Conn) error {
	if err := w.put.do(c); err != nil {
		return err
	}
	return w.take.do(c)
}
