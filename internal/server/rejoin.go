package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// refuseBlobs answers on a node of a cluster: the content of blobs is not replicated, and a blob that one node stores would be missing on the
// others.
func refuseBlobs(w http.ResponseWriter, r *http.Request) {
	w.Header()["x-ms-error-code"] = []string{wire.ErrNotImplemented.Code}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(wire.ErrNotImplemented.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(wire.NewXML(256).Open("Error").Text("Code", wire.ErrNotImplemented.Code).
			Text("Message", "A node of a cluster does not serve blobs: their content is not replicated yet. Use a server that is not part of a cluster.").Close("Error").Bytes())
	}
}

const (
	// followCheck is the interval of checking that the tables follow the cluster.
	followCheck = time.Second
	// rejoinWait bounds the wait for requests under way before the services are opened again.
	rejoinWait = 10 * time.Second
)

// keepFollowing opens the services again when the tables no longer follow the log: the node was paused for so long that the log was cut, or its
// file differs from the log, or the log cannot be read. ctx ends with the stack.
func (s *Stack) keepFollowing(ctx context.Context) {
	tick := time.NewTicker(followCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var cause error
		if open := s.services.Load(); open != nil {
			st, _ := open.tables.Replication()
			cause = st.Err
		}
		if cause == nil || errors.Is(cause, replog.ErrClosed) || errors.Is(cause, replog.ErrVersion) {
			continue // a newer release has written what this one does not know: it stays out
		}
		s.config.Log.Error("the tables no longer follow the cluster; joining again", "err", cause)
		if err := s.rejoin(ctx, cause); err != nil {
			s.config.Log.Error("cannot join again; trying again", "err", err)
		}
	}
}

// rejoin closes the services and opens them again. If this node's tables differ from those of the cluster, they are kept under another name, and
// the node starts from a snapshot.
func (s *Stack) rejoin(ctx context.Context, cause error) error {
	s.exchange.Lock()
	defer s.exchange.Unlock()
	open := s.services.Load()
	if !s.ready.Load() || open == nil {
		return errNotOpen
	}
	wait, cancel := context.WithTimeout(ctx, rejoinWait)
	defer cancel()
	if err := s.gate.shut(wait, open.board.Release); err != nil {
		return err
	}
	s.services.Store(nil)
	s.gate.open() // requests are answered 503 meanwhile
	if err := open.close(); err != nil {
		s.config.Log.Warn("closing the services", "err", err)
	}
	if errors.Is(cause, replog.ErrDiverged) || errors.Is(cause, store.ErrOtherLog) {
		if err := store.SetAside(s.dir.Tables(), "diverged"); err != nil {
			return err
		}
	}
	for {
		err := s.open(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		s.config.Log.Error("cannot open the services; trying again", "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(followCheck):
		}
	}
}
