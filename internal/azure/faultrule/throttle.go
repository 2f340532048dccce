package faultrule

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// throttled runs the operation if the rate allows it, and answers 503 ServerBusy otherwise, with the texts that the
// service uses. Bytes are paid for afterwards: a request that exceeds the rate holds up those after it.
func (f *Fault) throttled(r *wire.Request, do func() error) error {
	t := f.rule.Throttle
	if t.entities() {
		// Entities are known only when the operation has read its body, so the operation asks.
		r.Admit = f.admit(r)
		return do()
	}
	key, err := throttleKey(r, t.Per)
	if err != nil {
		return err
	}
	if t.Requests > 0 {
		if !f.limit.allow(key) {
			return f.busy(r, "Operations per second is over the account limit.")
		}
		return do()
	}
	if !f.limit.within(key) {
		// Azure names the direction. A request with a body is the one that writes.
		if r.HTTP.ContentLength != 0 {
			return f.busy(r, "Ingress is over the account limit.")
		}
		return f.busy(r, "Egress is over the account limit.")
	}
	// Counted as they pass: a length is not known of all bodies, and a client may stop reading.
	body, out := &countedBody{ReadCloser: r.HTTP.Body}, &countedWriter{ResponseWriter: r.Out}
	r.HTTP.Body, r.Out = body, out
	defer func() { f.limit.charge(key, body.n+out.n) }()
	return do()
}

// admit returns the function that the Table service calls with the entities of the request. Entities are paid for
// afterwards: a request that exceeds the rate holds up those after it.
func (f *Fault) admit(r *wire.Request) func(table, partition string, entities int) error {
	t := f.rule.Throttle
	return func(table, partition string, entities int) error {
		key := r.Account + "/" + strings.ToLower(table) + "/" + partition
		switch {
		case t.PartitionEntities > 0 && !f.partitions.whole(key):
			return f.busy(r, "Operations per second is over the partition limit.")
		case t.AccountEntities > 0 && !f.limit.whole(r.Account):
			return f.busy(r, "Operations per second is over the account limit.")
		}
		if t.PartitionEntities > 0 {
			f.partitions.charge(key, int64(entities))
		}
		if t.AccountEntities > 0 {
			f.limit.charge(r.Account, int64(entities))
		}
		return nil
	}
}

func (f *Fault) busy(r *wire.Request, message string) error {
	f.hit()
	f.mark(r)
	return f.failure(wire.ErrServerBusy.WithMessage(message))
}

// maxKeys bounds how many rates of one rule are remembered. Beyond it, all begin again.
const maxKeys = 10_000

// limiter is a token bucket for each key, with one second's tokens.
type limiter struct {
	now func() time.Time
	per float64

	mu      sync.Mutex // guards buckets
	buckets map[string]*rate.Limiter
}

// newLimiter limits rates to per a second.
func newLimiter(per float64, now func() time.Time) *limiter {
	return &limiter{now: now, per: per, buckets: make(map[string]*rate.Limiter)}
}

func (l *limiter) bucket(key string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[key]
	if b == nil {
		if len(l.buckets) >= maxKeys {
			clear(l.buckets)
		}
		b = rate.NewLimiter(rate.Limit(l.per), max(1, int(l.per)))
		l.buckets[key] = b
	}
	return b
}

// allow takes one token.
func (l *limiter) allow(key string) bool { return l.bucket(key).AllowN(l.now(), 1) }

// within reports whether there is a token.
func (l *limiter) within(key string) bool { return l.bucket(key).TokensAt(l.now()) > 0 }

// whole reports whether there is a whole token.
func (l *limiter) whole(key string) bool { return l.bucket(key).TokensAt(l.now()) >= 1 }

// charge takes n tokens, which may not be there yet.
func (l *limiter) charge(key string, n int64) {
	b := l.bucket(key)
	for n > 0 {
		part := min(n, int64(b.Burst()))
		b.ReserveN(l.now(), int(part))
		n -= part
	}
}

// throttleKey names what has a rate of its own.
func throttleKey(r *wire.Request, per string) (string, error) {
	key := r.Account + "/" + r.Service.String()
	if per == "" || per == "account" {
		return r.Account, nil
	}
	path := resource(r)
	container, rest, _ := strings.Cut(path, "/")
	if r.Service == wire.Table {
		container, _, _ = strings.Cut(path, "(")
	}
	key += "/" + container
	if per == "container" || r.Service == wire.Queue {
		return key, nil
	}
	if r.Service == wire.Blob {
		return key + "/" + rest, nil
	}
	partition, err := partitionKey(r, path)
	return key + "/" + partition, err
}

// maxEntityBody is the part of an Insert Entity that is read to find its PartitionKey: an entity's limit.
const maxEntityBody = 1 << 20

// partitionKey is the PartitionKey in an entity's address, or else in the entity that is inserted.
func partitionKey(r *wire.Request, path string) (string, error) {
	if _, rest, ok := strings.Cut(path, "PartitionKey='"); ok {
		key, _, _ := strings.Cut(strings.ReplaceAll(rest, "''", "\x00"), "'")
		return key, nil
	}
	if r.HTTP.Method != http.MethodPost || r.HTTP.Body == nil {
		return "", nil
	}
	text, err := io.ReadAll(io.LimitReader(r.HTTP.Body, maxEntityBody))
	if err != nil {
		return "", err
	}
	r.HTTP.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), r.HTTP.Body), r.HTTP.Body}
	var entity struct{ PartitionKey string }
	_ = json.Unmarshal(text, &entity) // what is wrong with the entity, the operation answers
	return entity.PartitionKey, nil
}

// countedBody counts the bytes of a request's body.
type countedBody struct {
	io.ReadCloser
	n int64
}

// Read implements io.Reader.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n += int64(n)
	return n, err
}

// countedWriter counts the bytes of a response's body.
type countedWriter struct {
	http.ResponseWriter
	n int64
}

// Write implements http.ResponseWriter.
func (w *countedWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.n += int64(n)
	return n, err
}
