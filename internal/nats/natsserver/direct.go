package natsserver

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"

	"github.com/nats-io/nats-server/v2/server"
)

// Store stores a message in a stream of an embedded server that only this process uses, and returns its sequence. The
// message is durable then, as one that was published: JetStream stores it with the same call. A publish takes the
// message through two goroutines of the client, three of the server, and a pipe between them, which costs more
// processor time than everything else that a request does. headers are as on the wire, nil for none.
//
// Errors: [ErrStorage] after a failed write, which the server recovers from by itself.
func (s *Server) Store(stream, subject string, headers, message []byte) (uint64, error) {
	if err := s.Failed(); err != nil {
		return 0, err
	}
	store, err := s.storeOf(stream)
	if err != nil {
		return 0, err
	}
	seq, _, err := store.StoreMsg(subject, headers, message, 0)
	switch {
	case errors.Is(err, server.ErrStoreClosed): // the stream was deleted, or the server is stopped
		s.mu.Lock()
		delete(s.stores, stream)
		s.mu.Unlock()
	// Fail starts the recovery. Until it ends, Failed refuses all further writes.
	case err != nil:
		s.Fail(err)
		err = cmp.Or(s.Failed(), err)
	}
	return seq, err
}

// storeOf returns what holds the messages of a stream of the embedded server. The streams are in a private field of
// nats-server; TestStore fails if an update of nats-server moves it.
func (s *Server) storeOf(stream string) (store server.StreamStore, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if store := s.stores[stream]; store != nil {
		return store, nil
	}
	if s.embedded == nil {
		return nil, ErrStorage
	}
	if store, err = storeIn(s.embedded, stream); err == nil {
		s.stores[stream] = store
	}
	return store, err
}

// storeIn returns what holds the messages of a stream in a server.
func storeIn(node *server.Server, stream string) (store server.StreamStore, err error) {
	// reflect panics if a field is missing or has another type.
	defer func() {
		if v := recover(); v != nil {
			store, err = nil, fmt.Errorf("natsserver: this version of nats-server has other fields than expected: %v", v)
		}
	}()
	chosenStreams(node, func(all reflect.Value) []reflect.Value {
		if v := all.MapIndex(reflect.ValueOf(stream)); v.IsValid() {
			found := reflect.NewAt(v.Type().Elem(), v.UnsafePointer()).Interface()
			store = found.(interface{ Store() server.StreamStore }).Store()
		}
		return nil
	})
	if store == nil {
		return nil, fmt.Errorf("natsserver: there is no stream %s", stream)
	}
	return store, nil
}

// Copied returns the sequence of the last message that the embedded server's own copy of a stream has, and the size of
// that copy in bytes. known is false if there is no such server, or if it has no copy.
func (s *Server) Copied(stream string) (last uint64, bytes int64, known bool) {
	s.mu.Lock()
	node := s.embedded
	s.mu.Unlock()
	if node == nil {
		return 0, 0, false
	}
	store, err := storeIn(node, stream)
	if err != nil {
		return 0, 0, false
	}
	var state server.StreamState
	store.FastState(&state)
	return state.LastSeq, int64(state.Bytes), true
}
