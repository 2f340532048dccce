package chaos

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"
)

const (
	// historyLength is the number of requests to a blob after which another one takes its place, and historyUnknown that
	// of requests without an answer: the time that a check takes grows exponentially with requests at a time, and these
	// never end.
	historyLength  = 80
	historyUnknown = 6
	// never is the time at which a request ends that has no answer.
	never = math.MaxInt64
)

// sharedHistories records the requests to blobs of all kinds, which all clients make through all nodes, for a check by
// porcupine.
type sharedHistories struct {
	blobs historyBlobs
	nodes int
	think time.Duration // limit of the pause after a request
	begun time.Time

	outcomes
	// What follows is guarded by outcomes.mu.
	requests  int64
	current   map[string]*history // by kind
	all       []*history
	undecided int
}

// history has the requests to one blob.
type history struct {
	kind, name string
	create     sync.Mutex // held while the blob is created

	// What follows is guarded by outcomes.mu.
	created bool
	begun   int // requests that were begun
	unknown int
	ops     []porcupine.Operation
	// What clients know: each uses it for the conditions of its requests, right or wrong.
	etag   string
	blocks []string // of the last read
	staged []string
	next   int
}

func newSharedHistories(blobs historyBlobs, nodes int, think time.Duration) *sharedHistories {
	return &sharedHistories{blobs: blobs, nodes: nodes, think: think, begun: time.Now(), current: map[string]*history{}}
}

// use makes requests until ctx is done.
func (s *sharedHistories) use(ctx context.Context, rnd *rand.Rand) {
	lease := uuid.NewString()
	for ctx.Err() == nil {
		kind := historyKinds[rnd.IntN(len(historyKinds))]
		h := s.take(kind)
		if !s.ensure(context.WithoutCancel(ctx), h, rnd.IntN(s.nodes)) {
			pause(ctx, 20*time.Millisecond)
			continue
		}
		s.request(context.WithoutCancel(ctx), h, rnd.IntN(s.nodes), s.choose(h, rnd, lease))
		pause(ctx, time.Duration(rnd.Int64N(int64(s.think))))
	}
}

// take returns the history to which the next request of a kind belongs.
func (s *sharedHistories) take(kind string) *history {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.current[kind]
	if h == nil || h.begun >= historyLength || h.unknown >= historyUnknown {
		h = &history{kind: kind, name: fmt.Sprint("history-", kind, "-", len(s.all))}
		s.current[kind], s.all = h, append(s.all, h)
	}
	h.begun++
	return h
}

// ensure creates the blob of a history unless it exists. It must not be replaced by a request that was delayed.
func (s *sharedHistories) ensure(ctx context.Context, h *history, node int) bool {
	h.create.Lock()
	defer h.create.Unlock()
	s.mu.Lock()
	created := h.created
	s.mu.Unlock()
	if created {
		return true
	}
	err := s.blobs.create(ctx, node, h.kind, h.name)
	if status(err) == http.StatusConflict {
		err = nil
	}
	if !s.answered(err, &s.requests) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h.created = true
	return true
}

// choose returns the next request of a client.
func (s *sharedHistories) choose(h *history, rnd *rand.Rand, lease string) blobRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := blobRequest{kind: h.kind, do: doRead, position: -1}
	// A third are reads. Without them nearly any order would explain the answers of the writes.
	if rnd.IntN(3) == 0 {
		return r
	}
	// Values never repeat, so that a read tells which write it saw.
	h.next++
	value := fmt.Sprint("v", h.next)
	switch h.kind {
	case kindETag:
		// Without a known ETag the request stays a read: a write with a stale one would almost always fail.
		if h.etag != "" {
			r.do, r.condition, r.value = doWrite, h.etag, value
		}
	case kindLease:
		r.do = []string{doAcquire, doRelease, doWrite, doWrite}[rnd.IntN(4)]
		if r.condition = lease; r.do == doWrite {
			r.value = value
			// Some writes come without the lease: they must be refused while there is one, and succeed otherwise.
			if rnd.IntN(3) == 0 {
				r.condition = ""
			}
		}
	case kindAppend:
		r.do, r.value = doAppend, value
		if rnd.IntN(3) > 0 {
			r.position = len(h.blocks)
		}
	case kindBlocks:
		if r.do, r.value = doStage, value; len(h.staged) > 0 && rnd.IntN(2) == 0 {
			r.do = doCommit
			// The last blocks and one new one: lists stay short, and the commit needs blocks of both kinds.
			r.value = strings.Join(append(slices.Clone(h.blocks[max(0, len(h.blocks)-4):]), h.staged[rnd.IntN(len(h.staged))]),
				" ")
		}
	}
	return r
}

// request makes a request and records it.
func (s *sharedHistories) request(ctx context.Context, h *history, node int, r blobRequest) (ok bool) {
	op := porcupine.Operation{Input: r, Call: int64(time.Since(s.begun)), Return: never}
	a, err := s.blobs.do(ctx, node, h.name, r)
	ended := int64(time.Since(s.begun))
	switch status(err) {
	case http.StatusPreconditionFailed, http.StatusConflict, http.StatusBadRequest:
		if r.do != doRead {
			a.outcome, err = wasRefused, nil
		}
	}
	acknowledged := s.answered(err, &s.requests)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case acknowledged:
		op.Return = ended
	case r.do == doRead || status(err) == http.StatusServiceUnavailable || status(err) == http.StatusInsufficientStorage:
		return false // it has not changed anything
	default:
		a = blobAnswer{outcome: wasUnknown}
		h.unknown++
	}
	op.Output, op.ClientId = a, len(h.ops)
	h.ops = append(h.ops, op)
	h.learn(r, a)
	return acknowledged
}

// learn keeps what clients need for later requests.
func (h *history) learn(r blobRequest, a blobAnswer) {
	switch {
	case a.outcome != wasDone:
		return
	case r.do == doRead:
		h.etag, h.blocks = a.etag, strings.Fields(a.value)
	case r.do == doWrite:
		h.etag = a.etag
	case r.do == doAppend:
		h.blocks = append(h.blocks, r.value)
	case r.do == doStage:
		h.staged = append(h.staged[max(0, len(h.staged)-3):], r.value)
	case r.do == doCommit:
		h.blocks = strings.Fields(r.value)
	}
}

// last reads all blobs once more, and checks all histories.
func (s *sharedHistories) last(ctx context.Context, rnd *rand.Rand) {
	for _, h := range s.all {
		if !h.created {
			continue
		}
		var ok bool
		_ = wait(ctx, drainPatience, func() (bool, error) {
			ok = s.request(ctx, h, rnd.IntN(s.nodes), blobRequest{kind: h.kind, do: doRead, position: -1})
			return ok, nil
		})
		s.mu.Lock()
		right, decided := checkHistory(h.ops)
		switch {
		case !ok && ctx.Err() == nil:
			s.found(Lost, "blob %s cannot be read at the end", h.name)
		case !right:
			s.found(Nonlinear, "no order of the requests to blob %s explains their answers:%s", h.name, describe(h.ops))
		case !decided:
			s.undecided++
		}
		s.mu.Unlock()
	}
}

// fill copies the numbers to the report.
func (s *sharedHistories) fill(r *NodesReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Histories, r.HistoryRequests, r.Undecided = len(s.all), s.requests, s.undecided
	s.add(r, "blob")
}
