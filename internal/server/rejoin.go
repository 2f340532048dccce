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
		cause := s.services.Load().lost()
		if cause == nil {
			continue
		}
		s.config.Log.Error("the tables no longer follow the cluster; joining again", "err", cause)
		if err := s.rejoin(ctx, cause); err != nil {
			s.config.Log.Error("cannot join again; trying again", "err", err)
		}
	}
}

// lost returns why the node must join again, nil if it must not.
func (o *services) lost() error {
	if o == nil {
		return nil
	}
	st, ok := o.tables.Replication()
	switch {
	case !ok, errors.Is(st.Err, replog.ErrClosed):
		return nil
	case errors.Is(st.Err, replog.ErrVersion): // a newer release has written what this one does not know: it stays out
		return nil
	case st.Err == nil && o.tables.Damages() > 0: // a read has found damage
		return store.ErrDamaged
	}
	return st.Err
}

// rejoin closes the services and opens them again. If this node's tables differ from those of the cluster or are damaged, they are kept under
// another name, and the node starts from a snapshot, or from the beginning of the log.
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
	aside := ""
	switch {
	case errors.Is(cause, store.ErrDamaged):
		aside = "damaged"
	case errors.Is(cause, replog.ErrDiverged), errors.Is(cause, store.ErrOtherLog):
		aside = "diverged"
	}
	if aside != "" {
		if err := store.SetAside(s.dir.Tables(), aside); err != nil {
			s.config.Log.Error("cannot rename the tables of this node", "err", err)
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
