package server

import (
	"context"
	"errors"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

const (
	// followCheck is the interval of checking that the tables follow the cluster.
	followCheck = time.Second
	// rejoinWait bounds the wait for requests under way before the services are opened again.
	rejoinWait = 10 * time.Second
)

// keepFollowing opens the services again when tables or blobs no longer follow their log: the node was paused for so
// long that the log was cut, or its file differs from the log, or the log cannot be read. ctx ends with the server.
func (s *Server) keepFollowing(ctx context.Context) {
	tick := time.NewTicker(followCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		lost := s.services.Load().lost()
		if len(lost) == 0 {
			continue
		}
		for name, cause := range lost {
			s.config.Log.Error("the "+name+" no longer follow the cluster; joining again", "err", cause)
		}
		if err := s.rejoin(ctx, lost); err != nil {
			s.config.Log.Error("cannot join again; trying again", "err", err)
		}
	}
}

// lost returns why the node must join again, by the names of the logs; empty if it must not.
func (o *services) lost() map[string]error {
	if o == nil {
		return nil
	}
	lost := map[string]error{}
	damages := map[string]int64{}
	for _, of := range o.list() {
		damages[of.Log("tables")], damages[of.Log("queues")] = of.tables.State.Damages(), of.queues.State.Database().Damages()
		damages[of.Log("blobs")], _ = of.blobs.State.Damages()
	}
	for name, svc := range o.logs() {
		st, ok := svc.Replication()
		switch {
		case !ok, errors.Is(st.Err, replog.ErrClosed):
		case errors.Is(st.Err, replog.ErrVersion): // a newer release has written what this one does not know: it stays out
		case st.Err != nil:
			lost[name] = st.Err
		case damages[name] > 0: // a read has found damage
			lost[name] = store.ErrDamaged
		}
	}
	return lost
}

// logFile returns the file that is the view of a log.
func (s *Server) logFile(name string) string {
	for n := range s.dir.Shards() {
		switch of := s.dir.Shard(n); name {
		case of.Log("tables"):
			return of.Tables()
		case of.Log("queues"):
			return of.QueueState()
		case of.Log("blobs"):
			return of.Blobs()
		}
	}
	panic("server: no log has the name " + name)
}

// rejoin closes the services and opens them again. If this node's state differs from those of the cluster or are
// damaged, they are kept under another name, and the node starts from a snapshot, or from the beginning of the log.
func (s *Server) rejoin(ctx context.Context, lost map[string]error) error {
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
	// The services are taken away before the gate opens. What passes it now finds none and is answered 503, where it
	// would otherwise wait for as long as the node takes to join.
	s.services.Store(nil)
	s.gate.open() // requests are answered 503 meanwhile
	if err := open.close(); err != nil {
		s.config.Log.Warn("closing the services", "err", err)
	}
	// The files are closed, so that they can be renamed. Only those that cannot be continued are: the others are caught
	// up from the log.
	for name, cause := range lost {
		aside := ""
		switch {
		case errors.Is(cause, store.ErrDamaged):
			aside = "damaged"
		case errors.Is(cause, replog.ErrDiverged), errors.Is(cause, store.ErrOtherLog):
			aside = "diverged"
		}
		if aside != "" {
			if err := store.SetAside(s.logFile(name), aside); err != nil {
				s.config.Log.Error("cannot rename the "+name+" of this node", "err", err)
			}
		}
	}
	// This does not give up before the server stops. keepFollowing sees nothing lost while no services are open, and
	// would not call rejoin again.
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
