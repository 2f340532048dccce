package contentstream

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

const (
	// window is the number of records of one writer that may be on their way, so that memory is bounded.
	window = 4
	// retryPause is the pause before a record is sent again.
	retryPause = 100 * time.Millisecond
)

// writer copies the records of one extent.Writer. Its methods are for one goroutine.
type writer struct {
	s       *Streams
	pending []sent // in the order of sending
}

// sent is a record that is not acknowledged.
type sent struct {
	x     extent.Slice
	until time.Time                // it is sent again until then
	parts []jetstream.PubAckFuture // nil if it could not be sent
}

// Begin implements extent.Mirror.
func (s *Streams) Begin() extent.MirrorWriter { return &writer{s: s} }

// Add implements extent.MirrorWriter.
func (w *writer) Add(x extent.Slice, records []byte, _ bool) error {
	for len(w.pending) >= window {
		if err := w.settle(); err != nil {
			return err
		}
	}
	record := bytes.Clone(records[:x.Offset-extent.RecordOf(x)+x.Length]) // filler is of no use elsewhere
	until := time.Now().Add(w.s.config.Timeout)
	parts, _ := w.send(x, record) // settle tries again
	w.pending = append(w.pending, sent{x, until, parts})
	return nil
}

// send sends a record, which it keeps.
func (w *writer) send(x extent.Slice, record []byte) (parts []jetstream.PubAckFuture, err error) {
	ctx, cancel := context.WithTimeout(w.s.life, w.s.config.Timeout)
	defer cancel()
	if _, err := w.s.create(ctx, x.Extent); err != nil {
		return nil, err
	}
	for i, p := range halves(record) {
		f, err := w.s.js.PublishMsgAsync(&nats.Msg{Subject: subject(x.Extent, extent.RecordOf(x), i), Data: p},
			jetstream.WithExpectStream(streamName(x.Extent)), jetstream.WithStallWait(w.s.config.Timeout))
		if err != nil {
			return nil, err
		}
		parts = append(parts, f)
	}
	return parts, nil
}

// halves returns the messages of a record.
func halves(record []byte) [][]byte {
	if len(record) <= maxMessage {
		return [][]byte{record}
	}
	n := len(record) / 2
	return [][]byte{record[:n:n], record[n:]}
}

// Commit implements extent.MirrorWriter.
func (w *writer) Commit() error {
	for len(w.pending) > 0 {
		if err := w.settle(); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until the oldest record is acknowledged, and sends it again if it is not.
func (w *writer) settle() error {
	p := w.pending[0]
	for {
		err := w.await(p.parts)
		if err == nil {
			w.pending = w.pending[1:]
			return nil
		}
		if w.s.life.Err() != nil {
			return extent.ErrClosed
		}
		if time.Now().After(p.until) {
			w.s.leave(p.x.Extent)
			return fmt.Errorf("%w: extent %016x: the NATS cluster has not acknowledged content: %w", extent.ErrUnavailable,
				p.x.Extent, err)
		}
		select {
		case <-time.After(retryPause):
		case <-w.s.life.Done():
			return extent.ErrClosed
		}
		_, record, err := w.s.config.Extents.Record(p.x)
		if err != nil {
			return fmt.Errorf("contentstream: read content that was just written: %w", err)
		}
		if p.parts, err = w.send(p.x, record); err != nil && time.Now().After(p.until) {
			w.s.leave(p.x.Extent)
			return fmt.Errorf("%w: extent %016x: %w", extent.ErrUnavailable, p.x.Extent, err)
		}
	}
}

// leave ends an extent whose stream does not acknowledge content although the cluster works otherwise: a stream whose
// servers were lost one after the other may have no leader until all of them are back. Later content goes to another
// stream.
func (s *Streams) leave(id uint64) {
	ctx, cancel := context.WithTimeout(s.life, time.Second)
	defer cancel()
	if _, err := s.js.AccountInfo(ctx); err == nil {
		s.config.Extents.End(id)
		s.config.Log.Warn("the stream of an extent does not acknowledge content; further content goes to another one",
			"extent", fmt.Sprintf("%016x", id))
	}
}

// await waits until all messages of a record are acknowledged.
func (w *writer) await(parts []jetstream.PubAckFuture) error {
	if len(parts) == 0 {
		return nats.ErrNoResponders
	}
	for _, f := range parts {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			return err
		case <-w.s.life.Done():
			return extent.ErrClosed
		}
	}
	return nil
}

// Close implements extent.MirrorWriter.
func (w *writer) Close() {}
