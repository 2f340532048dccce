package contentstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

const (
	// fetchTimeout bounds a read of one record, and attemptTimeout one question: a server that was just lost does not
	// answer it.
	fetchTimeout   = 10 * time.Second
	attemptTimeout = 2 * time.Second
)

// errMissing means that the stream's leader has no such message, or that there is no stream.
var errMissing = errors.New("the NATS cluster does not have the content")

// Fetch implements extent.Mirror.
//
// Errors: extent.ErrUnavailable if the cluster does not answer, extent.ErrCorrupt if it does not have the record.
func (s *Streams) Fetch(x extent.Slice) (offset int64, record []byte, err error) {
	ctx, cancel := context.WithTimeout(s.life, fetchTimeout)
	defer cancel()
	for {
		offset, record, err = s.fetchOnce(ctx, x)
		if err == nil || errors.Is(err, errMissing) || errors.Is(err, extent.ErrCorrupt) {
			break
		}
		select {
		case <-ctx.Done():
			return 0, nil, fmt.Errorf("%w: extent %016x, offset %d: %w", extent.ErrUnavailable, x.Extent, x.Offset, err)
		case <-time.After(retryPause):
		}
	}
	if errors.Is(err, errMissing) {
		err = fmt.Errorf("%w: extent %016x, offset %d: %w", extent.ErrCorrupt, x.Extent, x.Offset, err)
	}
	return offset, record, err
}

func (s *Streams) fetchOnce(ctx context.Context, x extent.Slice) (offset int64, record []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	stream, err := s.stream(ctx, x.Extent)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, nil, errMissing
	}
	if err != nil {
		return 0, nil, err
	}
	offset = extent.RecordOf(x)
	if x.CRC == 0 { // it may be a part of a record
		if offset, err = s.locate(ctx, stream, x); err != nil {
			return 0, nil, err
		}
	}
	if record, err = s.message(ctx, stream, subject(x.Extent, offset, 0)); err != nil {
		return 0, nil, err
	}
	if extent.RecordSize(record) > int64(len(record)) {
		rest, err := s.message(ctx, stream, subject(x.Extent, offset, 1))
		if err != nil {
			return 0, nil, err
		}
		record = append(record, rest...)
	}
	return offset, record, extent.CheckRecord(x, offset, record)
}

// locate returns the offset of the record that contains x.
func (s *Streams) locate(ctx context.Context, stream jetstream.Stream, x extent.Slice) (offset int64, err error) {
	at := x.Offset / extent.MaxRecord
	for bucket := at; bucket >= max(at-2, 0); bucket-- { // a record and its header are longer than one MiB
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter(
			fmt.Sprintf("lazuli.extent.%016x.%x.*.0", x.Extent, bucket)))
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return 0, errMissing
		}
		if err != nil {
			return 0, err
		}
		offset = -1
		for name := range info.State.Subjects {
			token := strings.Split(name, ".")
			if n, err := strconv.ParseInt(token[len(token)-2], 16, 64); err == nil && n < x.Offset {
				offset = max(offset, n)
			}
		}
		if offset >= 0 {
			return offset, nil
		}
	}
	return 0, errMissing
}

// message returns the newest message of a subject: of any replica, or of the leader if a replica does not have it.
func (s *Streams) message(ctx context.Context, stream jetstream.Stream, subject string) ([]byte, error) {
	m, err := stream.GetLastMsgForSubject(ctx, subject)
	if err == nil {
		return m.Data, nil
	}
	if !errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, err
	}
	question, err := json.Marshal(map[string]string{"last_by_subj": subject})
	if err != nil {
		return nil, err
	}
	answer, err := s.config.Conn.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+stream.CachedInfo().Config.Name,
		question)
	if err != nil {
		return nil, err
	}
	var found struct {
		Message *struct {
			Data []byte `json:"data"`
		} `json:"message"`
		Error *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(answer.Data, &found); {
	case err != nil:
		return nil, err
	case found.Error != nil && (found.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound ||
		found.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound):
		return nil, errMissing
	case found.Error != nil:
		return nil, found.Error
	case found.Message == nil:
		return nil, errMissing
	}
	return found.Message.Data, nil
}
