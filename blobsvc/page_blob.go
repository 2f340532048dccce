package blobsvc

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Limits of page blobs.
const (
	PageSize     = 512
	maxPageBlob  = 8 << 40
	maxPageWrite = 4 * mib
)

// parsePageBlobSize reads x-ms-blob-content-length.
func parsePageBlobSize(s string) (int64, error) {
	n, ok := parseOffset(s)
	if !ok || n%PageSize != 0 || n > maxPageBlob {
		return 0, wire.InvalidHeader("x-ms-blob-content-length", s)
	}
	return n, nil
}

// createPageBlob is Put Blob for a page blob: all zeros, sparse.
func (s *Service) createPageBlob(c *call) error {
	n, err := c.contentLength(maxPageBlob)
	if err != nil {
		return err
	}
	if n != 0 {
		return wire.InvalidHeader("Content-Length", strconv.FormatInt(n, 10))
	}
	if !c.HasHeader("X-Ms-Blob-Content-Length") {
		return wire.MissingHeader("x-ms-blob-content-length")
	}
	size, err := parsePageBlobSize(c.Header("X-Ms-Blob-Content-Length"))
	if err != nil {
		return err
	}
	b, p, err := c.newBlob(PageBlob, true)
	if err != nil {
		return err
	}
	b.Length = size
	if text := c.Header("X-Ms-Blob-Sequence-Number"); text != "" {
		var ok bool
		if b.Sequence, ok = parseOffset(text); !ok {
			return wire.InvalidHeader("x-ms-blob-sequence-number", text)
		}
	}
	return s.createEmpty(c, &b, &p)
}

// createEmpty puts a blob without content in place and answers.
func (s *Service) createEmpty(c *call, b *Blob, p *Preconditions) error {
	b.Created = s.ticks.Next(c.Now)
	b.Changed = b.Created
	err := s.update(c, func(tx *store.Tx) error {
		b := *b
		var err error
		if b.Encryption, err = s.encryptionFor(tx, c); err != nil {
			return err
		}
		return s.replace(tx, c, p, &b)
	})
	if err != nil {
		return err
	}
	c.sendVersion(b.Changed)
	c.sendEncrypted()
	return c.Status(http.StatusCreated)
}

// SequenceConditions are the conditions of Put Page on the sequence number.
type SequenceConditions struct {
	LE, LT, EQ          int64
	HasLE, HasLT, HasEQ bool
}

func (c *call) sequenceConditions() (q SequenceConditions, err error) {
	read := func(canonical, name string) (int64, bool) {
		text := c.Header(canonical)
		if text == "" || err != nil {
			return 0, false
		}
		n, ok := parseOffset(text)
		if !ok {
			err = wire.InvalidHeader(name, text)
		}
		return n, true
	}
	q.LE, q.HasLE = read("X-Ms-If-Sequence-Number-Le", "x-ms-if-sequence-number-le")
	q.LT, q.HasLT = read("X-Ms-If-Sequence-Number-Lt", "x-ms-if-sequence-number-lt")
	q.EQ, q.HasEQ = read("X-Ms-If-Sequence-Number-Eq", "x-ms-if-sequence-number-eq")
	return q, err
}

func (q SequenceConditions) check(n int64) error {
	if q.HasLE && n > q.LE || q.HasLT && n >= q.LT || q.HasEQ && n != q.EQ {
		return errSequenceNumber
	}
	return nil
}

// pageRange reads the range of a write of pages: aligned at both ends. end is exclusive.
func (c *call) pageRange() (start, end int64, err error) {
	r, ok, err := c.requestRange()
	if err != nil {
		return 0, 0, err
	}
	if !ok {
		return 0, 0, wire.MissingHeader("Range")
	}
	if r.End == OpenEnd || r.Start%PageSize != 0 || (r.End+1)%PageSize != 0 {
		return 0, 0, errInvalidPageRange
	}
	return r.Start, r.End + 1, nil
}

// putPage: https://learn.microsoft.com/rest/api/storageservices/put-page
func (s *Service) putPage(c *call) error {
	n, err := c.contentLength(maxPageWrite)
	if err != nil {
		return err
	}
	start, end, err := c.pageRange()
	if err != nil {
		return err
	}
	seq, err := c.sequenceConditions()
	if err != nil {
		return err
	}
	switch action := c.Header("X-Ms-Page-Write"); action {
	case "update", "Update":
		if end-start > maxPageWrite {
			return errInvalidPageRange
		}
		if n != end-start {
			return wire.InvalidHeader("Content-Length", strconv.FormatInt(n, 10))
		}
	case "clear", "Clear":
		if n != 0 {
			return wire.InvalidHeader("Content-Length", strconv.FormatInt(n, 10))
		}
		return s.writePages(c, start, end, seq, nil, func() {})
	case "":
		return wire.MissingHeader("x-ms-page-write")
	default:
		return wire.InvalidHeader("x-ms-page-write", action)
	}
	up, err := s.receive(c, n, false)
	if err != nil {
		return err
	}
	defer up.Close()
	return s.writePages(c, start, end, seq, up, func() {
		c.sendHashes(up)
		c.sendEncrypted()
	})
}

// writePages puts received content at [start, end) of a page blob, or clears that range if up is nil, and answers; extra adds
// response headers.
func (s *Service) writePages(c *call, start, end int64, seq SequenceConditions, up *content.Upload, extra func()) error {
	changed := s.ticks.Next(c.Now)
	var sequence int64
	err := s.updateBlob(c, func(tx *store.Tx, gen uint64, b *Blob) error {
		if b.Kind != PageBlob {
			return errInvalidBlobType
		}
		if err := s.mayAdd(c, b, up); err != nil {
			return err
		}
		if err := seq.check(b.Sequence); err != nil {
			return err
		}
		if err := b.checkChangeable(); err != nil {
			return err
		}
		if end > b.Length {
			return errInvalidPageRange
		}
		if b.content.id == 0 {
			b.content = newContent(tx)
		}
		if err := b.content.cut(tx, start, end); err != nil {
			return err
		}
		if up != nil {
			p := up.Pieces()
			p[0].Start = start
			putPieces(tx, b.content.id, p)
		}
		b.Changed = changed
		sequence = b.Sequence
		putBlob(tx, gen, c.blob, baseSlot, b)
		s.note(tx, c, eventContent, baseSlot, b)
		return nil
	})
	if err != nil {
		return err
	}
	c.sendVersion(changed)
	c.SetInt("x-ms-blob-sequence-number", sequence)
	extra()
	return c.Status(http.StatusCreated)
}

// cut removes [start, end) from the pieces of a page blob. Each of them has a record of its own.
func (c pieceList) cut(tx *store.Tx, start, end int64) error {
	var hit []content.Piece
	err := c.walk(tx, start, end-start, end, func(p *content.Piece) error {
		hit = append(hit, *p)
		return nil
	})
	if err != nil {
		return err
	}
	for _, p := range hit {
		tx.Delete(contentBucket, pieceKey(c.id, p.End()))
		if p.Start < start {
			putPieces(tx, c.id, []content.Piece{p.Window(p.Start, start)})
		}
		if p.End() > end {
			putPieces(tx, c.id, []content.Piece{p.Window(end, p.End())})
		}
	}
	return nil
}

// resizePages changes the length of a page blob: what is past the new end is gone, what is new is zeros.
func resizePages(tx *store.Tx, b *Blob, size int64) error {
	if size < b.Length && b.content.id != 0 {
		if err := b.content.cut(tx, size, b.Length); err != nil {
			return err
		}
	}
	b.Length = size
	return nil
}

// storePages stores the pieces of a page blob under a new id, one record each.
func storePages(tx *store.Tx, list []content.Piece) pieceList {
	if len(list) == 0 {
		return pieceList{}
	}
	c := newContent(tx)
	for i := range list {
		putPieces(tx, c.id, list[i:i+1])
	}
	return c
}

// maxPageRanges is the size of the largest page of ranges.
const maxPageRanges = 10_000

// pageRangeLimit reads maxresults: how many ranges a page has; 0 means all of them.
func (c *call) pageRangeLimit() (int, error) {
	s := c.Query.Get("maxresults")
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	switch {
	case err != nil:
		return 0, invalidQuery("maxresults", s)
	case n < 1:
		return 0, wire.OutOfRangeQuery("maxresults", s, "1", strconv.Itoa(maxPageRanges))
	}
	return int(min(n, maxPageRanges)), nil
}

// pageOfSpans returns the spans from an offset on, limit of them unless that is 0, and the offset of the next; 0 at the end.
func pageOfSpans(list []Span, from int64, limit int) (page []Span, next int64) {
	for len(list) > 0 && list[0].End <= from {
		list = list[1:]
	}
	if limit > 0 && len(list) > limit {
		return list[:limit], list[limit].Start
	}
	return list, 0
}

// previousSnapshot is the snapshot to which differences are asked for, by its time or by its URL; 0 for none.
func (s *Service) previousSnapshot(c *call) (ticks.Ticks, error) {
	text := c.Query.Get("prevsnapshot")
	if address := c.Header("X-Ms-Previous-Snapshot-Url"); address != "" {
		invalid := wire.InvalidHeader("x-ms-previous-snapshot-url", address)
		u, err := url.Parse(address)
		if err != nil || c.Query.Has("prevsnapshot") {
			return 0, invalid
		}
		r := s.inner(c, u, "")
		if r == nil {
			return 0, invalid
		}
		at, level, err := s.resolve(r)
		if err != nil || level != onBlob || at.Account != c.Account || at.container != c.container || at.blob != c.blob {
			return 0, invalid
		}
		if text = at.Query.Get("snapshot"); text == "" {
			return 0, invalid
		}
	} else if !c.Query.Has("prevsnapshot") {
		return 0, nil
	}
	previous, ok := ticks.ParseISO(text)
	if !ok {
		return 0, invalidQuery("prevsnapshot", text)
	}
	return previous, nil
}

// getPageRanges: https://learn.microsoft.com/rest/api/storageservices/get-page-ranges
// With prevsnapshot it answers the differences to an earlier snapshot.
func (s *Service) getPageRanges(c *call) error {
	rng, partial, err := c.requestRange()
	if err != nil {
		return err
	}
	limit, err := c.pageRangeLimit()
	if err != nil {
		return err
	}
	marker := int64(0)
	if text := c.Query.Get("marker"); text != "" {
		if marker, err = strconv.ParseInt(text, 10, 64); err != nil || marker < 0 {
			return invalidQuery("marker", text)
		}
	}
	previous, err := s.previousSnapshot(c)
	if err != nil {
		return err
	}
	var b Blob
	var list []Span
	_, err = s.viewBlob(c, &b, func(tx *store.Tx, gen, slot uint64) (err error) {
		if b.Kind != PageBlob {
			return errInvalidBlobType
		}
		if b.isIncremental(slot) {
			return errIncrementalDestination
		}
		off, n := int64(0), b.Length
		if partial {
			if off, n, err = rng.within(b.Length); err != nil {
				return err
			}
			// The answer covers the pages that the range touches.
			end := (off + n + PageSize - 1) / PageSize * PageSize
			off -= off % PageSize
			n = end - off
		}
		if previous == 0 {
			list, err = b.content.spans(tx, off, n, b.Length)
			return err
		}
		if uint64(previous) > slot {
			return errPreviousSnapshotNewer
		}
		var old Blob
		if _, err := (Address{Snapshot: previous}).get(tx, gen, c.blob, &old); err != nil {
			if err == errBlobNotFound {
				return errPreviousSnapshotMissing
			}
			return err
		}
		var before, after []content.Piece
		collect := func(to *[]content.Piece) func(*content.Piece) error {
			return func(p *content.Piece) error { *to = append(*to, *p); return nil }
		}
		if err := old.content.walk(tx, off, n, old.Length, collect(&before)); err != nil {
			return err
		}
		if err := b.content.walk(tx, off, n, b.Length, collect(&after)); err != nil {
			return err
		}
		list = diffPages(before, after, off, off+n)
		return nil
	})
	if err != nil {
		return err
	}
	list, next := pageOfSpans(list, marker, limit)
	x := wire.NewXML(256 + 80*len(list))
	if len(list) == 0 {
		x.Empty("PageList")
	} else {
		x.Open("PageList")
		for _, p := range list {
			name := "PageRange"
			if p.Cleared {
				name = "ClearRange"
			}
			x.Open(name).Int("Start", p.Start).Int("End", p.End-1).Close(name)
		}
		if next > 0 {
			x.Int("NextMarker", next)
		}
		x.Close("PageList")
	}
	c.sendVersion(b.Changed)
	c.SetInt("x-ms-blob-content-length", b.Length)
	return c.XML(http.StatusOK, x)
}

// errPreviousSnapshotNewer: prevsnapshot is later than the state that is asked about.
var errPreviousSnapshotNewer = fail(http.StatusBadRequest, "PreviousSnapshotCannotBeNewer", "The prevsnapshot query parameter value cannot be newer than snapshot query parameter value.")
