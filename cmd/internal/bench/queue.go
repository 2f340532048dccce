package bench

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

const (
	messageSize  = 1 << 10 // bytes of message text
	messageBatch = 32      // messages of a request, the most that Get Messages returns
	// alsoHeader has the further messages of a request; docs/extensions.md.
	alsoHeader = "X-Lazuli-Also"
)

func queueWorkloads() []*Workload {
	// A workload that only takes messages gets its depth back between slices: otherwise a fast target would have a shorter
	// queue than a slow one. Those that only put have a queue of their own for each run, which begins empty.
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
		Name: "queue-put-32", About: "Put Message of 32 messages of 1 KiB together, an extension", Extra: true,
		Bytes: messageSize * messageBatch, Items: messageBatch, Unit: "messages",
		prepare: func(e *env) error {
			_, err := e.createQueue("bench-put32-" + e.run)
			return err
		},
		worker: func(e *env, i int) worker { return newBatchPutter(e, "bench-put32-"+e.run, i) },
	}, {
		Name: "queue-turnover-32", About: "cycles of Put Message, Get Messages and Delete Message of 32 messages of 1 KiB " +
			"together, an extension", Extra: true,
		Items: messageBatch, Unit: "messages",
		prepare: func(e *env) error { return e.needBatches() },
		worker:  func(e *env, i int) worker { return newBatchTurner(e, e.batches, i) },
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

// needBatches makes a queue from which every connection can take a batch at once, and a floor that has none to put.
func (e *env) needBatches() error {
	name, err := e.createQueue("bench-batches-" + e.run)
	if err != nil {
		return err
	}
	e.batches = &messageSet{queue: name}
	return e.putMessages(e.batches, 2*messageBatch*len(e.conns))
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

// batchPutter puts the messages of a batch with one request.
type batchPutter struct{ req *Request }

func newBatchPutter(e *env, queue string, conn int) *batchPutter {
	one := newPutter(e, queue, conn).req
	also := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("%d:0,", messageSize), messageBatch-1), ",")
	r := NewRequest(Queue, "POST", "put", 201, Field{"Content-Type", "application/xml"}, Field{alsoHeader, also})
	r.Path, r.Keep = one.Path, true
	text := textAfterN(one.Body, "<MessageText>", messageSize)
	text = bytes.Repeat(text, messageBatch)
	r.Body = fmt.Appendf(nil, "<QueueMessage><MessageText>%s</MessageText></QueueMessage>", text)
	return &batchPutter{r}
}

var errNoBatches = errors.New("the service does not put, or delete, messages together")

func (w *batchPutter) do(c *Conn) error {
	res, err := c.Do(w.req)
	if err == nil && string(res.Header(alsoHeader)) != fmt.Sprint(messageBatch-1) {
		return errNoBatches
	}
	return err
}

// batchTurner puts a batch, gets one and deletes that.
type batchTurner struct {
	put      *batchPutter
	get, del *Request
	also     []byte
}

func newBatchTurner(e *env, set *messageSet, conn int) *batchTurner {
	w := &batchTurner{put: newBatchPutter(e, set.queue, conn),
		get: NewRequest(Queue, "GET", "get", 200),
		del: NewRequest(Queue, "DELETE", "delete", 204, Field{alsoHeader, ""})}
	w.get.Path = []byte("/" + set.queue + "/messages")
	w.get.Query = []Param{{"numofmessages", fmt.Append(nil, messageBatch)}, {"visibilitytimeout", []byte("600")}}
	w.get.Keep = true
	w.del.Query = []Param{{Name: "popreceipt"}}
	return w
}

func (w *batchTurner) do(c *Conn) error {
	if err := w.put.do(c); err != nil {
		return err
	}
	res, err := c.Do(w.get)
	if err != nil {
		return err
	}
	// The first message is named by the request's path and its receipt, the others by the extension's header. Each is cut
	// out of the answer, which a parser of XML would make the larger part of what is measured.
	w.also = w.also[:0]
	n := 0
	for body := res.Body; ; n++ {
		id, receipt := textAfter(body, "<MessageId>"), textAfter(body, "<PopReceipt>")
		if id == nil || receipt == nil {
			break
		}
		body = body[bytes.Index(body, []byte("</QueueMessage>"))+1:]
		if n == 0 {
			w.del.Path = append(append(append(w.del.Path[:0], w.get.Path...), '/'), id...)
			w.del.Query[0].Value = append(w.del.Query[0].Value[:0], receipt...)
			continue
		}
		if n > 1 {
			w.also = append(w.also, ',')
		}
		w.also = append(append(append(w.also, id...), ':'), receipt...)
	}
	// Fewer would make the cycle cheaper than its name says.
	if n != messageBatch {
		return errNoReceipt
	}
	w.del.plain[0].Value = string(w.also)
	if res, err = c.Do(w.del); err != nil {
		return err
	}
	if bytes.Count(res.Header(alsoHeader), []byte("Deleted")) != messageBatch-1 {
		return errNoBatches
	}
	return nil
}
