package blobsvc

import (
	"context"
	"io"
	"net/url"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// An incremental copy from outside this process is a pending copy (copy_pending.go) of those pages alone that differ from the snapshot
// that was copied before: the source's Get Page Ranges tells them. They arrive as blocks of the job's set, under their offsets; the
// destination keeps its content until all are there. Then, in one transaction, they take their places, what the source has cleared goes,
// and the snapshot is made. Progress is how far into the blob everything has come, so that a copy that is taken up again asks for the
// ranges anew and goes on behind it: the source is a snapshot, and does not change.
const (
	// maxGap is how many bytes between changed pages are fetched and thrown away, in place of one more request.
	maxGap = 256 << 10
	// maxSpansAtOnce bounds how many ranges one transaction notes.
	maxSpansAtOnce = 2048
)

// beginIncremental is Incremental Copy Blob with a source outside this process.
func (s *Service) beginIncremental(c *call, src *copySource, p *Preconditions) error {
	if src.remote.token != "" { // it would have to be kept for as long as the copy takes
		return wire.ErrUnsupportedHeader.With("HeaderName", "x-ms-copy-source-authorization")
	}
	if err := c.noKeys(); err != nil {
		return err
	}
	source, snapshot, err := remoteSnapshot(src.url)
	if err != nil {
		return err
	}
	// The source is asked for nothing if the destination is not fit.
	err = s.db.View(func(tx *store.Tx) error {
		gen, err := containerGen(tx, c.Account, c.container)
		if err == nil {
			_, err = c.incrementalTarget(tx, gen, p, source, snapshot, new(Blob))
		}
		return err
	})
	if err != nil {
		return err
	}
	body, err := s.getRemote(c.HTTP.Context(), src, Range{0, OpenEnd}, "")
	if err != nil {
		return copyError(err)
	}
	_ = body.Close()
	if body.of.Kind != PageBlob || body.of.Length%PageSize != 0 {
		return errInvalidSourceBlobType
	}
	changed := s.ticks.Next(c.Now)
	job := CopyJob{Account: c.Account, Container: c.container, ID: uuid.NewString(), URL: src.url, Intent: src.remote.intent, ETag: body.etag, Snapshot: snapshot}
	var key []byte
	err = s.update(c, func(tx *store.Tx) error {
		gen, err := containerGen(tx, c.Account, c.container)
		if err != nil {
			return err
		}
		var b Blob
		there, err := c.incrementalTarget(tx, gen, p, source, snapshot, &b)
		if err != nil {
			return err
		}
		by, err := s.encryptionFor(tx, c)
		if err != nil {
			return err
		}
		if !there {
			b = Blob{Kind: PageBlob, Created: changed, Encryption: by, Incremental: Incremental{Source: source}}
		} else if err := b.Encryption.Matches(by); err != nil {
			return err
		}
		length := b.Length // of the content that is there until the new one has come
		b.Metadata = nil
		b.adopt(&body.of)
		b.Length, b.Changed = length, changed
		b.Copy = CopyState{ID: job.ID, Source: src.url, Status: CopyPending, Total: body.of.Length}
		if !there {
			if err := s.replace(tx, c, p, &b); err != nil {
				return err
			}
		} else {
			putBlob(tx, gen, c.blob, baseSlot, &b)
			s.note(tx, c, eventStarted, baseSlot, &b)
		}
		key, err = job.put(tx, c, &b)
		return err
	})
	if err != nil {
		return err
	}
	return s.answerPending(c, key, job.ID, changed)
}

// remoteSnapshot splits a source's address into the blob's, by which the destination knows it again whatever signs the next request, and
// the snapshot.
func remoteSnapshot(address string) (source string, snapshot ticks.Ticks, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", 0, wire.InvalidHeader("x-ms-copy-source", address)
	}
	text := u.Query().Get("snapshot")
	if text == "" {
		return "", 0, errIncrementalNoSnapshot
	}
	snapshot, ok := ticks.ParseISO(text)
	if !ok {
		return "", 0, wire.InvalidHeader("x-ms-copy-source", address)
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath(), snapshot, nil
}

// transferSnapshot fetches what is left of an incremental copy and completes it. moved is set if something arrived.
func (s *Service) transferSnapshot(ctx context.Context, key []byte, job *CopyJob, b *Blob) (moved bool, err error) {
	changed, cleared, err := s.remoteChanges(ctx, job, b.Incremental.Last, b.Copy.Total)
	if err != nil {
		return false, err
	}
	for at := b.Copy.Copied; ; {
		var batch []Span
		if batch, changed = nextBatch(changed, at); len(batch) == 0 {
			break
		}
		up, err := s.fetchSpans(ctx, job, b, batch)
		if err != nil {
			return moved, err
		}
		err = s.addSpans(key, job.ID, batch, up)
		up.Close()
		if err != nil {
			return moved, err
		}
		at, moved = batch[len(batch)-1].End, true
	}
	return moved, s.endSnapshot(key, job.ID, cleared)
}

// nextBatch takes what one request fetches from the front of a list of ranges, of which those before the offset at are done.
func nextBatch(list []Span, at int64) (batch, rest []Span) {
	var bytes int64
	for len(list) > 0 && bytes < copyChunk && len(batch) < maxSpansAtOnce {
		x := list[0]
		x.Start = max(x.Start, at)
		if x.Start >= x.End {
			list = list[1:]
			continue
		}
		if n := len(batch); n > 0 && x.Start-batch[n-1].End > maxGap {
			break
		}
		if room := copyChunk - bytes; x.End-x.Start > room {
			x.End = x.Start + room
		} else {
			list = list[1:]
		}
		batch = append(batch, x)
		bytes += x.End - x.Start
		at = x.End
	}
	return batch, list
}

// fetchSpans makes ranges of the source durable, one behind the other. The caller closes the upload.
func (s *Service) fetchSpans(ctx context.Context, job *CopyJob, b *Blob, batch []Span) (*content.Upload, error) {
	first, last := batch[0].Start, batch[len(batch)-1].End
	body, err := s.getRemote(ctx, &copySource{url: job.URL, remote: &remote{intent: job.Intent}}, Range{first, last - 1}, job.ETag)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	if body.of.Length != b.Copy.Total || body.n != last-first {
		return nil, errSourceChanged
	}
	var n int64
	for _, x := range batch {
		n += x.End - x.Start
	}
	sealer, err := s.scopes.NewSealer(job.Account, b.Encryption, nil)
	if err != nil {
		return nil, err
	}
	up, err := content.Store(s.extents, &spanReader{r: body, at: first, spans: batch}, n, content.Options{Sealer: sealer})
	if err != nil {
		return nil, sourceBroken(err)
	}
	return up, nil
}

// spanReader reads ranges from what also has the bytes between them.
type spanReader struct {
	r     io.Reader
	at    int64 // the offset of the next byte of r
	spans []Span
}

// Read implements io.Reader.
func (s *spanReader) Read(p []byte) (int, error) {
	for len(s.spans) > 0 && s.at >= s.spans[0].End {
		s.spans = s.spans[1:]
	}
	if len(s.spans) == 0 {
		return 0, io.EOF
	}
	if gap := s.spans[0].Start - s.at; gap > 0 {
		n, err := io.CopyN(io.Discard, s.r, gap)
		if s.at += n; err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
	}
	n, err := s.r.Read(p[:min(int64(len(p)), s.spans[0].End-s.at)])
	s.at += int64(n)
	return n, err
}

// addSpans notes ranges that have arrived.
func (s *Service) addSpans(key []byte, id string, batch []Span, up *content.Upload) error {
	return s.changeCopy(key, id, func(tx *store.Tx, job *CopyJob, b *Blob) (event, error) {
		all, at := up.Pieces()[0], int64(0)
		for _, x := range batch {
			n := x.End - x.Start
			p := all.Window(at, at+n)
			p.Encryption = all.Encryption
			tx.Put(blocksBucket, blockKey(job.set, chunkID(x.Start)), encodeBlock(p))
			at += n
		}
		job.blocks += int64(len(batch))
		b.Copy.Copied = batch[len(batch)-1].End
		return 0, nil
	})
}

// endSnapshot puts what has arrived in its place, and makes the snapshot.
func (s *Service) endSnapshot(key []byte, id string, cleared []Span) error {
	gen, _, err := parsePendingKey(key)
	if err != nil {
		return err
	}
	changed, at := s.ticks.Next(s.now()), s.ticks.Next(s.now())
	return s.changeCopyOf(key, id, func(tx *store.Tx, c *call, job *CopyJob, b *Blob) (event, error) {
		if err := resizePages(tx, b, b.Copy.Total); err != nil {
			return 0, err
		}
		if b.content.id == 0 {
			b.content = newContent(tx)
		}
		for _, x := range cleared {
			if err := b.content.cut(tx, x.Start, x.End); err != nil {
				return 0, err
			}
		}
		list, err := job.arrived(tx)
		if err != nil {
			return 0, err
		}
		for i := range list {
			if err := b.content.cut(tx, list[i].Start, list[i].End()); err != nil {
				return 0, err
			}
			putPieces(tx, b.content.id, list[i:i+1])
		}
		dropBlockSet(tx, job.chunks())
		return eventContent, s.endIncremental(tx, c, gen, b, job.Snapshot, changed, at)
	})
}
