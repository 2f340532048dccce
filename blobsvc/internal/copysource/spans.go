package copysource

import (
	"io"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

const (
	// maxGap is the maximum number of bytes between changed pages that are fetched and dropped to save a request.
	maxGap = 256 << 10
	// maxSpansAtOnce is the maximum number of ranges in one transaction.
	maxSpansAtOnce = 2048
)

// nextBatch returns the ranges from the front of a list that one request fetches. The ranges before the offset at have
// arrived.
func nextBatch(list []record.Span, at int64) (batch, rest []record.Span) {
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

// spanReader reads ranges from a reader that has the bytes between them as well.
type spanReader struct {
	r     io.Reader
	at    int64 // the offset of the next byte of r
	spans []record.Span
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
