package natsserver

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// JetStream keeps each block of a stream's file in memory for ten seconds after its last use, and no option changes
// that (https://github.com/nats-io/nats-server/issues/5740). A node that joins writes the blocks of the other nodes'
// streams as fast as its disk takes them, so it holds what it has written in ten seconds: 1.4 GiB were measured. A
// BlockCaches shortens the time while a stream is copied.
//
// The time is a private field of nats-server, found by reflection. TestBlockCachesOfCopiedStreams fails if an update of
// nats-server moves it.

const (
	// copiedBlockTime is the time for which blocks stay in memory that are written while their stream is copied from
	// another node, usualBlockTime that of all others.
	copiedBlockTime = 100 * time.Millisecond
	usualBlockTime  = 10 * time.Second
)

// BlockCaches sets how long blocks stay in memory. Its methods are for one goroutine.
type BlockCaches struct {
	copied []reflect.Value // streams with copiedBlockTime
	failed bool            // nats-server has other fields than expected
}

// Adjust sets copiedBlockTime for the streams that are being copied from another node, and usualBlockTime for those
// that no longer are. It has an effect on blocks that begin after the call. After an error, later calls do nothing.
func (c *BlockCaches) Adjust(e *server.Server) (err error) {
	if c.failed {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			c.failed = true
			err = fmt.Errorf("natsserver: this version of nats-server has other fields than expected: %v", v)
		}
	}()
	for _, s := range copiedStreams(e) {
		known := slices.ContainsFunc(c.copied, func(k reflect.Value) bool { return k.UnsafeAddr() == s.UnsafeAddr() })
		// A stream without a file yet is tried again at the next call.
		if !known && setBlockTime(s, copiedBlockTime) {
			c.copied = append(c.copied, s)
		}
	}
	c.copied = slices.DeleteFunc(c.copied, func(s reflect.Value) bool {
		return !isCopied(s.FieldByName("catchup")) && setBlockTime(s, usualBlockTime)
	})
	return nil
}

// copiedStreams returns the streams that are being copied from another node.
func copiedStreams(e *server.Server) []reflect.Value {
	return chosenStreams(e, func(all reflect.Value) (list []reflect.Value) {
		catchup, ok := all.Type().Elem().Elem().FieldByName("catchup")
		if !ok {
			panic("a stream has no field catchup")
		}
		for i := all.MapRange(); i.Next(); {
			if s := i.Value().Elem(); isCopied(s.FieldByIndex(catchup.Index)) {
				list = append(list, s)
			}
		}
		return list
	})
}

// chosenStreams returns what choose returns for the map of a server's streams, by name. choose must not block.
func chosenStreams(e *server.Server, choose func(all reflect.Value) []reflect.Value) []reflect.Value {
	account := reflect.ValueOf(e.GlobalAccount()).Elem()
	// These are the server's own locks, in its order: the account's is free before that of JetStream is taken.
	lock := mutexOf(account)
	lock.RLock()
	js := account.FieldByName("js").Elem()
	lock.RUnlock()
	if !js.IsValid() {
		return nil // JetStream is being stopped
	}
	lock = mutexOf(js)
	lock.RLock()
	defer lock.RUnlock()
	return choose(js.FieldByName("streams"))
}

// isCopied returns the value of the field catchup of a stream.
func isCopied(catchup reflect.Value) bool { return fieldOf[atomic.Bool](catchup).Load() }

// setBlockTime sets the time for the blocks of a stream that begin after the call. It returns false if the stream has
// no file yet.
func setBlockTime(stream reflect.Value, d time.Duration) bool {
	store, ok := fileStoreOf(stream)
	if !ok {
		// A stream in memory has no blocks: there is nothing to set, which counts as done.
		return store.IsValid()
	}
	lock := mutexOf(store)
	lock.Lock()
	defer lock.Unlock()
	*fieldOf[time.Duration](store.FieldByName("fcfg").FieldByName("CacheExpire")) = d
	return true
}

// fileStoreOf returns what holds the records of a stream. ok is false if that is not a file; store is not valid if it
// was not created yet.
func fileStoreOf(stream reflect.Value) (store reflect.Value, ok bool) {
	lock := mutexOf(stream)
	lock.RLock()
	store = stream.FieldByName("store").Elem() // it is set once
	lock.RUnlock()
	if !store.IsValid() {
		return store, false
	}
	store = store.Elem()
	return store, store.Type().Name() == "fileStore"
}

// mutexOf returns the lock of a struct of nats-server.
func mutexOf(v reflect.Value) *sync.RWMutex { return fieldOf[sync.RWMutex](v.FieldByName("mu")) }

// fieldOf returns a pointer to a private field. It panics if the field has another type.
func fieldOf[T any](field reflect.Value) *T {
	if field.Type() != reflect.TypeFor[T]() {
		panic(fmt.Sprintf("%v in place of %v", field.Type(), reflect.TypeFor[T]()))
	}
	return (*T)(field.Addr().UnsafePointer())
}
