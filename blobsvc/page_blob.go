package blobsvc

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Limits of page blobs.
const (
	maxPageBlob  = 8 << 40
	maxPageWrite = 4 * endpoint.MiB
)

// sequenceConditions reads the conditions of Put Page on the sequence number.
func sequenceConditions(c *call) (q state.SequenceConditions, err error) {
	read := func(canonical string) (int64, bool) {
		text := c.Header(canonical)
		if text == "" || err != nil {
			return 0, false
		}
		n, ok := endpoint.ParseOffset(text)
		if !ok {
			err = wire.InvalidHeader(canonical, text)
			// Recorded; Put Page From URL has the usual error for these, too.
			if n, _ := strconv.ParseInt(text, 10, 64); n < 0 && !c.HasHeader("X-Ms-Copy-Source") {
				err = wire.ErrInvalidInput
			}
		}
		return n, true
	}
	q.LE, q.HasLE = read("X-Ms-If-Sequence-Number-Le")
	q.LT, q.HasLT = read("X-Ms-If-Sequence-Number-Lt")
	q.EQ, q.HasEQ = read("X-Ms-If-Sequence-Number-Eq")
	return q, err
}

// pageRange reads the range of a write of pages: aligned at both ends. end is exclusive.
func pageRange(c *call) (start, end int64, err error) {
	text := endpoint.RangeHeader(c.Headers())
	if text == "" {
		return 0, 0, wire.MissingHeader("Range")
	}
	r, ok := endpoint.ParseRange(text)
	if !ok {
		return 0, 0, wire.InvalidHeader("Range", text)
	}
	if r.End == state.OpenEnd || r.Start%state.PageSize != 0 || (r.End+1)%state.PageSize != 0 {
		if strings.EqualFold(c.Header("X-Ms-Page-Write"), "clear") {
			return 0, 0, wire.InvalidHeader("Range", text)
		}
		return 0, 0, state.ErrPageRange
	}
	return r.Start, r.End + 1, nil
}

// putPage: https://learn.microsoft.com/rest/api/storageservices/put-page
func (s *Service) putPage(c *call) error {
	n, err := c.ContentLength(maxPageWrite)
	if err != nil {
		return err
	}
	p, err := readPageWrite(c)
	if err != nil {
		return err
	}
	action, err := c.Headers().NeedWord("X-Ms-Page-Write", "update", "clear")
	if err != nil {
		return err
	}
	switch action {
	case "update":
		if p.end-p.start > maxPageWrite {
			return state.ErrPageRange
		}
		if n != p.end-p.start {
			return wire.InvalidHeader("Content-Length", strconv.FormatInt(n, 10))
		}
	case "clear":
		if n != 0 {
			return wire.InvalidHeader("Content-Length", strconv.FormatInt(n, 10))
		}
	}
	w, err := c.NewWriteExisting()
	if err != nil {
		return err
	}
	// Only a clear has no content: the range of an update is never empty.
	if n == 0 {
		_, err := s.writePages(c, &w, p, nil)
		if err != nil {
			return err
		}
		return c.Status(http.StatusCreated)
	}
	// The answer has the MD5, and no CRC64, if the blob is in an encryption scope (recorded).
	up, err := c.Receive(&w, n, endpoint.Reception{Existing: true, ScopeMD5: true})
	if err != nil {
		return err
	}
	defer up.Close()
	id, err := s.writePages(c, &w, p, up)
	if err != nil {
		return err
	}
	c.SendHashes(up)
	c.SendEncrypted(id)
	return c.Status(http.StatusCreated)
}

// pageWrite is the position at which pages are written, and under which conditions on the sequence number. end is
// exclusive.
type pageWrite struct {
	start, end int64
	conditions state.SequenceConditions
}

func readPageWrite(c *call) (p pageWrite, err error) {
	if p.start, p.end, err = pageRange(c); err != nil {
		return p, err
	}
	p.conditions, err = sequenceConditions(c)
	return p, err
}

// writePages writes received content, or clears the pages if up is nil, and sets headers of the response.
func (s *Service) writePages(c *call, w *state.Write, p pageWrite, up *content.Upload) (encryption.ID, error) {
	result, err := s.state.PageBlobs.Write(w, p.start, p.end, p.conditions, up)
	if err != nil {
		return encryption.ID{}, err
	}
	c.SendChanged(result.Changed)
	c.SetInt("x-ms-blob-sequence-number", result.Sequence)
	return result.Encryption, nil
}

// maxPageRanges is the size of the largest page of ranges.
const maxPageRanges = 10_000

// pageRangeLimit reads maxresults: how many ranges a page has; 0 means all of them.
func pageRangeLimit(c *call) (int, error) {
	s := c.Query.Get("maxresults")
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	switch {
	case err != nil:
		return 0, endpoint.InvalidQuery("maxresults", s)
	case n < 1:
		return 0, wire.OutOfRangeQuery("maxresults", s, "1", strconv.Itoa(maxPageRanges))
	}
	return int(min(n, maxPageRanges)), nil
}

// pageOfSpans returns the spans from an offset on, limit of them unless that is 0, and the offset of the next; 0 at the
// end.
func pageOfSpans(list []record.Span, from int64, limit int) (page []record.Span, next int64) {
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
		at, level, err := s.inside(c, u, "")
		if at == nil || err != nil || level != endpoint.OnBlob || at.Account != c.Account || at.Container != c.Container ||
			at.Blob != c.Blob {
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
		return 0, endpoint.InvalidQuery("prevsnapshot", text)
	}
	return previous, nil
}

// getPageRanges: https://learn.microsoft.com/rest/api/storageservices/get-page-ranges
// With prevsnapshot it answers the differences to an earlier snapshot.
func (s *Service) getPageRanges(c *call) error {
	rng, partial := endpoint.RequestRange(c.Headers())
	limit, err := pageRangeLimit(c)
	if err != nil {
		return err
	}
	marker := int64(0)
	if text := c.Query.Get("marker"); text != "" {
		if marker, err = strconv.ParseInt(text, 10, 64); err != nil || marker < 0 {
			return endpoint.InvalidQuery("marker", text)
		}
	}
	previous, err := s.previousSnapshot(c)
	if err != nil {
		return err
	}
	r, err := c.NewRead()
	if err != nil {
		return err
	}
	var within *state.Range
	if partial {
		within = &rng
	}
	ranges, err := s.state.PageBlobs.Ranges(&r, within, previous)
	var outside *state.RangeError
	if errors.As(err, &outside) {
		return endpoint.ErrInvalidRange // without the Content-Range of reads of the content (recorded)
	}
	if err != nil {
		return err
	}
	list, next := pageOfSpans(ranges.Spans, marker, limit)
	x := wire.NewXML(256 + 80*len(list))
	marked := limit > 0 || c.HasHeader("X-Ms-Previous-Snapshot-Url") // then the list has a marker always
	if len(list) == 0 && !marked {
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
		} else if marked {
			x.Empty("NextMarker")
		}
		x.Close("PageList")
	}
	c.SendChanged(ranges.Changed)
	c.SetInt("x-ms-blob-content-length", ranges.Length)
	return c.XML(http.StatusOK, x)
}

// parsePageBlobSize reads x-ms-blob-content-length.
func parsePageBlobSize(s string) (int64, error) {
	n, ok := endpoint.ParseOffset(s)
	if !ok || n%state.PageSize != 0 || n > maxPageBlob {
		return 0, wire.InvalidHeader("x-ms-blob-content-length", s)
	}
	return n, nil
}
