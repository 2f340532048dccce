package blobsvc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// A copy from outside the process is pending: the blob is there, empty, and a job in the copies bucket says where its content
// comes from. The content arrives in chunks, which are uncommitted blocks of a set of the job's own until the last has come;
// progress is durable with each. After a restart jobs go on with the chunk that they were at, provided that the source still
// has its entity tag; one without any begins anew.
const (
	// copyChunk is the size in bytes of a chunk.
	copyChunk = 16 * mib
	// copiesAtOnce bounds how many copies of one account are under way. Each account has its own bound, so that the slow sources of
	// one do not delay the copies of others.
	copiesAtOnce = 8
	// copyAttempts is how often a source is asked without any progress until the copy fails; copyMaxPause bounds the pause
	// between two.
	copyAttempts = 10
	copyMaxPause = time.Minute
)

// copier is the state of pending copies.
type copier struct {
	pause time.Duration
	root  context.Context // of all copies, from resumeCopies on
	mu    sync.Mutex
	// slots limit the copies under way, by account.
	slots map[string]chan struct{}
	// running has the way to stop each copy that is under way or waits, by its id.
	running map[string]context.CancelFunc
}

func newCopier(pause time.Duration) copier {
	if pause <= 0 {
		pause = time.Second
	}
	return copier{pause: pause, slots: map[string]chan struct{}{}, running: map[string]context.CancelFunc{}}
}

// slotsOf returns the slots of an account. The caller holds mu.
func (c *copier) slotsOf(account string) chan struct{} {
	if c.slots[account] == nil {
		c.slots[account] = make(chan struct{}, copiesAtOnce)
	}
	return c.slots[account]
}

// CopyJob is a pending copy.
type CopyJob struct {
	Account, Container string
	// ID is the copy's.
	ID, URL, Intent string
	// ETag is the source's when the copy began.
	ETag string
	// set has the chunks that have come, and blocks is their number.
	set    uint64
	blocks int64
	// Snapshot is the source's that an incremental copy copies, 0 for any other copy.
	Snapshot ticks.Ticks
}

func (j *CopyJob) encode() []byte {
	e := newEncoder(128)
	for _, s := range [...]string{j.Account, j.Container, j.ID, j.URL, j.Intent, j.ETag} {
		e.string(s)
	}
	e.uvarint(j.set)
	e.uvarint(uint64(j.blocks))
	if j.Snapshot != 0 {
		e.uvarint(uint64(j.Snapshot))
	}
	return e.b
}

func decodeCopyJob(v []byte) (j CopyJob, err error) {
	d := newDecoder(v)
	for _, s := range [...]*string{&j.Account, &j.Container, &j.ID, &j.URL, &j.Intent, &j.ETag} {
		*s = d.string()
	}
	j.set, j.blocks = d.uint(), int64(d.uint())
	if d.more() {
		j.Snapshot = ticks.Ticks(d.uint())
	}
	return j, d.err()
}

// beginCopy is Copy Blob with a source outside this process.
func (s *Service) beginCopy(c *call, src *copySource) error {
	if src.remote.token != "" { // it would have to be kept for as long as the copy takes
		return wire.ErrUnsupportedHeader.With("HeaderName", "x-ms-copy-source-authorization")
	}
	b, p, err := c.newBlob(BlockBlob, false)
	if err != nil {
		return err
	}
	if err := s.mayWrite(c, &p); err != nil {
		return err
	}
	body, err := s.getRemote(c.HTTP.Context(), src, Range{0, OpenEnd}, "")
	if err != nil {
		return copyError(err)
	}
	_ = body.Close()
	if body.of.Kind == PageBlob && body.of.Length%PageSize != 0 {
		return errInvalidSourceBlobType
	}
	b.adopt(&body.of)
	b.Length, b.Blocks = 0, 0
	changed := s.ticks.Next(c.Now)
	b.Copy = CopyState{ID: uuid.NewString(), Source: src.url, Status: CopyPending, Total: body.of.Length}
	if err := c.shapeCopy(&b, changed); err != nil {
		return err
	}
	job := CopyJob{Account: c.Account, Container: c.container, ID: b.Copy.ID, URL: src.url, Intent: src.remote.intent, ETag: body.etag}
	var key []byte
	err = s.update(c, func(tx *store.Tx) error {
		b := b
		if err := s.sameKind(tx, c, b.Kind); err != nil {
			return err
		}
		var err error
		if b.Encryption, err = s.encryptionFor(tx, c); err != nil {
			return err
		}
		if err := s.replace(tx, c, &p, &b); err != nil {
			return err
		}
		key, err = job.put(tx, c, &b)
		return err
	})
	if err != nil {
		return err
	}
	return s.answerPending(c, key, job.ID, changed)
}

// put stores the job of a copy to b, the blob that a call names, and returns its key.
func (j CopyJob) put(tx *store.Tx, c *call, b *Blob) (key []byte, err error) {
	if l := b.Lease.At(c.now()); l.State == LeaseLeased && l.Duration != LeaseInfinite {
		return nil, errInfiniteLease
	}
	gen, err := containerGen(tx, c.Account, c.container)
	if err != nil {
		return nil, err
	}
	j.set = nextID(tx)
	key = pendingKey(gen, c.blob)
	tx.Put(copiesBucket, key, j.encode())
	return key, nil
}

// answerPending runs the job of a key in the background, and says so.
func (s *Service) answerPending(c *call, key []byte, id string, changed ticks.Ticks) error {
	s.startCopy(c.Account, key, id)
	c.sendVersion(changed)
	c.sendEncryption(c.under)
	c.Set("x-ms-copy-id", id)
	c.Set("x-ms-copy-status", CopyPending)
	return c.Status(http.StatusAccepted)
}

// resumeCopies goes on with the copies that were pending when the process ended.
func (s *Service) resumeCopies(ctx context.Context) error {
	s.root = ctx
	jobs := map[string]CopyJob{}
	err := s.db.View(func(tx *store.Tx) error {
		cur := tx.Cursor(copiesBucket)
		for k, v := cur.Seek(nil); k != nil; k, v = cur.Next() {
			job, err := decodeCopyJob(v)
			if err != nil {
				return err
			}
			jobs[string(k)] = job
		}
		return nil
	})
	for key, job := range jobs {
		s.startCopy(job.Account, []byte(key), job.ID)
	}
	return err
}

// startCopy runs the job of a key, a copy to an account, in the background.
func (s *Service) startCopy(account string, key []byte, id string) {
	ctx, cancel := context.WithCancel(s.root)
	s.copier.mu.Lock()
	s.running[id] = cancel
	slots := s.slotsOf(account)
	s.copier.mu.Unlock()
	s.done.Go(func() {
		defer func() {
			cancel()
			s.copier.mu.Lock()
			delete(s.running, id)
			s.copier.mu.Unlock()
		}()
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			s.runCopy(ctx, key, id)
		case <-ctx.Done():
		}
	})
}

// stopCopy ends the work on a copy that was aborted.
func (s *Service) stopCopy(id string) {
	s.copier.mu.Lock()
	defer s.copier.mu.Unlock()
	if cancel := s.running[id]; cancel != nil {
		cancel()
	}
}

// errCopyGone: the job of a copy is not there any more, for it was aborted or its container deleted.
var errCopyGone = errors.New("the copy is not pending any more")

// runCopy brings a copy to its end, or leaves it pending when the service stops.
func (s *Service) runCopy(ctx context.Context, key []byte, id string) {
	pause := s.pause
	for attempt := 1; ; attempt++ {
		moved, err := s.transfer(ctx, key, id)
		if err == nil || errors.Is(err, errCopyGone) || ctx.Err() != nil {
			return
		}
		if moved {
			attempt, pause = 1, s.pause
		}
		if final(err) || attempt >= copyAttempts {
			s.log.Warn("copy failed", "service", "blob", "copy", id, "err", err)
			if err := s.failCopy(key, id, err); err != nil && !errors.Is(err, errCopyGone) {
				s.log.Error("recording a failed copy failed", "service", "blob", "copy", id, "err", err)
			}
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, copyMaxPause)
	}
}

// final reports whether asking the source again is useless.
func final(err error) bool {
	var e *wire.Error
	return errors.As(azureError(err), &e) && e.Status < 500 && e.Status != http.StatusTooManyRequests && e.Status != http.StatusRequestTimeout
}

// transfer fetches what is left of a copy and completes it. moved is set if a chunk arrived.
func (s *Service) transfer(ctx context.Context, key []byte, id string) (moved bool, err error) {
	var job CopyJob
	var b Blob
	err = s.db.View(func(tx *store.Tx) (err error) {
		job, err = loadCopy(tx, key, id, &b)
		return err
	})
	if err != nil {
		return false, err
	}
	if job.Snapshot != 0 {
		return s.transferSnapshot(ctx, key, &job, &b)
	}
	at, total := b.Copy.Copied, b.Copy.Total
	if at > 0 && job.ETag == "" {
		if err := s.rewindCopy(key, id); err != nil {
			return false, err
		}
		at = 0
	}
	if at < total {
		rng := Range{at, OpenEnd}
		body, err := s.getRemote(ctx, &copySource{url: job.URL, remote: &remote{intent: job.Intent}}, rng, job.ETag)
		if err != nil {
			return false, err
		}
		defer func() { _ = body.Close() }()
		if body.of.Length != total || body.n != total-at {
			return false, errSourceChanged
		}
		for at < total {
			n := min(copyChunk, total-at)
			sealer, err := s.scopes.NewSealer(job.Account, b.Encryption, nil)
			if err != nil {
				return moved, err
			}
			up, err := content.Store(s.extents, body, n, content.Options{Sealer: sealer})
			if err != nil {
				return moved, sourceBroken(err)
			}
			err = s.addChunk(key, id, at, up)
			up.Close()
			if err != nil {
				return moved, err
			}
			at, moved = at+n, true
		}
	}
	return moved, s.endCopy(key, id)
}

// errSourceChanged: the source is not what it was when the copy began.
var errSourceChanged = fail(http.StatusPreconditionFailed, "ConditionNotMet", "The copy source changed while it was copied.")

// loadCopy reads a job and its blob. It fails with errCopyGone.
func loadCopy(tx *store.Tx, key []byte, id string, b *Blob) (job CopyJob, err error) {
	v := tx.Get(copiesBucket, key)
	if v == nil {
		return job, errCopyGone
	}
	if job, err = decodeCopyJob(v); err != nil {
		return job, err
	}
	gen, name, err := parsePendingKey(key)
	if err != nil {
		return job, err
	}
	if job.ID != id || tx.Get(containersBucket, containerKey(job.Account, job.Container)) == nil {
		return job, errCopyGone
	}
	switch err := getBlob(tx, gen, string(name), baseSlot, b); {
	case err == errBlobNotFound:
		return job, errCopyGone
	case err != nil:
		return job, err
	case b.Copy.ID != id || b.Copy.Status != CopyPending:
		return job, errCopyGone
	}
	return job, nil
}

// changeCopy is changeCopyOf for what needs no call.
func (s *Service) changeCopy(key []byte, id string, change func(tx *store.Tx, job *CopyJob, b *Blob) (event, error)) error {
	return s.changeCopyOf(key, id, func(tx *store.Tx, _ *call, job *CopyJob, b *Blob) (event, error) { return change(tx, job, b) })
}

// changeCopyOf changes job and blob of a pending copy in one transaction. change says with what event the copy is over, 0 if it
// is not.
func (s *Service) changeCopyOf(key []byte, id string, change func(tx *store.Tx, c *call, job *CopyJob, b *Blob) (event, error)) error {
	gen, name, err := parsePendingKey(key)
	if err != nil {
		return err
	}
	c := &call{Request: &wire.Request{Service: wire.Blob, Now: s.now(), Operation: "CopyBlob"}, blob: string(name)}
	return s.update(c, func(tx *store.Tx) error {
		var b Blob
		job, err := loadCopy(tx, key, id, &b)
		if err != nil {
			return err
		}
		c.Account, c.container = job.Account, job.Container
		over, err := change(tx, c, &job, &b)
		if err != nil {
			return err
		}
		if over == 0 {
			tx.Put(copiesBucket, key, job.encode())
		} else {
			tx.Delete(copiesBucket, key)
		}
		putBlob(tx, gen, c.blob, baseSlot, &b)
		if over != 0 {
			s.note(tx, c, over, baseSlot, &b)
		}
		return nil
	})
}

func chunkID(at int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(at))) }

// addChunk notes a chunk that has arrived.
func (s *Service) addChunk(key []byte, id string, at int64, up *content.Upload) error {
	return s.changeCopy(key, id, func(tx *store.Tx, job *CopyJob, b *Blob) (event, error) {
		tx.Put(blocksBucket, blockKey(job.set, chunkID(at)), encodeBlock(up.Pieces()[0]))
		job.blocks++
		b.Copy.Copied = at + up.Length
		return 0, nil
	})
}

// rewindCopy gives up what has arrived.
func (s *Service) rewindCopy(key []byte, id string) error {
	return s.changeCopy(key, id, func(tx *store.Tx, job *CopyJob, b *Blob) (event, error) {
		dropBlockSet(tx, job.chunks())
		job.set, job.blocks = nextID(tx), 0
		b.Copy.Copied = 0
		return 0, nil
	})
}

// arrived returns what has arrived, in order, each piece at the offset that its block is named by.
func (j *CopyJob) arrived(tx *store.Tx) (list []content.Piece, err error) {
	scope := generationPrefix(j.set)
	cur := tx.Cursor(blocksBucket)
	for k, v := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
		p, err := decodeBlock(v)
		if err != nil {
			return nil, err
		}
		if len(k) < len(scope)+8 {
			return nil, errKey
		}
		p.Start = int64(binary.BigEndian.Uint64(k[len(k)-8:]))
		list = append(list, p)
	}
	return list, nil
}

// chunks stands for the set of what has arrived.
func (j *CopyJob) chunks() pendingRecord { return pendingRecord{set: j.set, count: j.blocks} }

// endCopy makes the chunks the blob's content.
func (s *Service) endCopy(key []byte, id string) error {
	changed := s.ticks.Next(s.now())
	return s.changeCopy(key, id, func(tx *store.Tx, job *CopyJob, b *Blob) (event, error) {
		list, err := job.arrived(tx)
		if err != nil {
			return 0, err
		}
		dropBlockSet(tx, job.chunks())
		if b.Kind == BlockBlob {
			b.content, b.Length = layOut(tx, list)
		} else {
			for i := range list {
				list[i].Start = b.Length
				b.Length += list[i].Length
			}
			b.content = storePages(tx, list)
			if b.Kind == AppendBlob {
				b.Blocks = int64(len(list))
			}
		}
		b.Copy.Status, b.Copy.Completed, b.Changed = CopySuccess, changed, changed
		return eventCreated, nil
	})
}

// failCopy gives a copy up. Its blob stays, empty.
func (s *Service) failCopy(key []byte, id string, why error) error {
	changed := s.ticks.Next(s.now())
	e := errCannotVerifyCopySource
	if errors.As(azureError(why), &e) {
		why = nil
	}
	return s.changeCopy(key, id, func(tx *store.Tx, job *CopyJob, b *Blob) (event, error) {
		dropBlockSet(tx, job.chunks())
		b.Copy.Status, b.Copy.Completed, b.Changed = CopyFailed, changed, changed
		b.Copy.Description = describe(e) + ` "Copy failed when reading the source."`
		if why != nil {
			b.Copy.Description = describe(wire.ErrInternal) + ` "Copy failed."`
		}
		return eventContent, nil
	})
}

// describe is the form of x-ms-copy-status-description: status and code.
func describe(e *wire.Error) string { return strconv.Itoa(e.Status) + " " + e.Code }

// abortCopy: https://learn.microsoft.com/rest/api/storageservices/abort-copy-blob
func (s *Service) abortCopy(c *call) error {
	if c.Header("X-Ms-Copy-Action") != "abort" {
		return wire.InvalidHeader("x-ms-copy-action", c.Header("X-Ms-Copy-Action"))
	}
	id, err := uuid.Parse(c.Query.Get("copyid"))
	if err != nil {
		return invalidQuery("copyid", c.Query.Get("copyid"))
	}
	changed := s.ticks.Next(c.Now)
	err = s.updateBase(c, (*Preconditions).checkAbort, func(tx *store.Tx, gen uint64, b *Blob) error {
		if b.Copy.Status != CopyPending {
			return errNoPendingCopy
		}
		if b.Copy.ID != id.String() {
			return errCopyIDMismatch
		}
		key := pendingKey(gen, c.blob)
		job, err := loadCopy(tx, key, b.Copy.ID, new(Blob))
		if err != nil {
			return err
		}
		dropBlockSet(tx, job.chunks())
		tx.Delete(copiesBucket, key)
		b.Copy.Status, b.Copy.Completed, b.Changed = CopyAborted, changed, changed
		putBlob(tx, gen, c.blob, baseSlot, b)
		s.note(tx, c, eventContent, baseSlot, b)
		return nil
	})
	if err != nil {
		return err
	}
	s.stopCopy(id.String())
	return c.Status(http.StatusNoContent)
}
