package replog

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// fetch asks a replica for the messages from a sequence on, and processes them. It returns how many were processed. A
// replica may lag: no message does not prove that none exists.
func (l *Log) fetch(next uint64) (processed int, err error) {
	err = l.servers.read(l.stream, next, fetchBatch, func(seq uint64, data []byte) (bool, error) {
		// A gap in the answer of one replica is no gap of the stream.
		if now, ok := l.state(); !ok || seq > now {
			return false, nil // this replica lacks messages: ask again, or the leader
		}
		processed += l.offer(seq, data)
		return true, nil
	})
	return processed, err
}

// fetchFromLeader asks the stream's leader for one message. If the leader does not have it although it has a later one,
// the log fails.
//
// A server that was cut off answers as the leader until it learns of the other one. That it has neither the message nor
// a later one proves nothing.
func (l *Log) fetchFromLeader(next uint64) (processed int, err error) {
	seq, data, err := l.servers.message(l.stream, next)
	switch {
	case err == nil && seq == next:
		n := l.offer(next, data)
		// offer has refused the copy of the leader, and the replicas that were asked before have given no better one.
		if now, ok := l.state(); ok && now == next && !l.takeUnsettled() {
			l.fail(fmt.Errorf("%w: message %d has a wrong checksum on the leader as well", ErrDamaged, next))
		}
		return n, nil
	case err != nil && !errors.Is(err, errNoMessage):
		return 0, err
	}
	ctx, cancel := l.within(context.Background(), fetchTimeout)
	defer cancel()
	// The state of the stream tells the reasons apart: it is gone, another one, cut, or only not there yet.
	info, err := l.servers.stream(ctx, l.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		l.fail(fmt.Errorf("%w: the stream %s is gone", ErrDiverged, l.stream))
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	switch {
	case info.Config.Metadata[metadataID] != l.id:
		l.fail(fmt.Errorf("%w: the stream %s was created again", ErrDiverged, l.stream))
	case info.State.FirstSeq > next:
		l.fail(fmt.Errorf("%w: message %d is needed, the first one is %d", ErrPurged, next, info.State.FirstSeq))
	case seq > next:
		l.fail(fmt.Errorf("%w: message %d is missing, the next one is %d", ErrDamaged, next, seq))
	}
	return 0, nil
}
