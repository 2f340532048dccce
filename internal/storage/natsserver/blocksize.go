package natsserver

import (
	"fmt"
	"reflect"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// JetStream writes a stream in blocks of 8 MiB, and of 4 MiB if the stream has a limit of records per subject; no option sets the size. It keeps the
// block that is written in memory, in a buffer of that size, and each block for ten seconds after its last use. A queue whose messages are received and
// deleted writes each of them again, so that these were 70 MiB. So streams of the embedded server get blocks of 4 MiB, which stay for a second.
//
// Both are private fields of nats-server, found by reflection. TestBlocksAreSmall fails if an update of nats-server moves them.

const (
	// blockSize is the size of the blocks of queues' streams on an embedded server that is not a node of a cluster, in bytes.
	blockSize = 4 << 20
	// blockTime is how long they stay in memory after their last use. Reading one again takes 0.6 ms.
	blockTime = time.Second
)

// LimitBlocks gives a stream that was created small blocks. Without an embedded server with files it does nothing. If it fails, it logs the reason,
// and the stream keeps large blocks.
func (s *Server) LimitBlocks(stream string) {
	e := s.running()
	if e == nil || s.streams == "" || s.node != nil {
		return
	}
	s.warnLargeBlocks(limitBlocks(e, func(all reflect.Value) []reflect.Value {
		if m := all.MapIndex(reflect.ValueOf(stream)); m.IsValid() {
			return []reflect.Value{m.Elem()}
		}
		return nil
	}))
}

func (s *Server) warnLargeBlocks(err error) {
	if err != nil {
		s.config.Log.Warn("queues need more memory than they should: the size of blocks and their time in memory cannot be set", "err", err)
	}
}

// limitAllBlocks gives all streams of a server small blocks.
func limitAllBlocks(e *server.Server) error {
	return limitBlocks(e, func(all reflect.Value) (list []reflect.Value) {
		for i := all.MapRange(); i.Next(); {
			list = append(list, i.Value().Elem())
		}
		return list
	})
}

// limitBlocks sets the size and the time in memory of the blocks that begin after the call, for the streams that choose returns from the account's map of streams.
func limitBlocks(e *server.Server, choose func(all reflect.Value) []reflect.Value) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("natsserver: this version of nats-server has other fields than expected: %v", v)
		}
	}()
	for _, stream := range chosenStreams(e, choose) {
		store, ok := fileStoreOf(stream)
		if !ok {
			continue
		}
		lock := mutexOf(store)
		lock.Lock()
		config := store.FieldByName("fcfg")
		*fieldOf[uint64](config.FieldByName("BlockSize")) = blockSize
		*fieldOf[time.Duration](config.FieldByName("CacheExpire")) = blockTime
		lock.Unlock()
	}
	return nil
}
