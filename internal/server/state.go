package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/nats/jetstreamfiles"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/offline"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	queuestate "github.com/lazuli-storage/lazuli/internal/state/queue"
	tablestate "github.com/lazuli-storage/lazuli/internal/state/table"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// The errors of operations on the whole state, in addition to those of [datadir.Dir].
var (
	// ErrUnknownAccount: the account is not served.
	ErrUnknownAccount = errors.New("no such account")
	// ErrElsewhere: the queues are on an external NATS server, not in the data folder.
	ErrElsewhere = errors.New("the queues are on an external NATS server: the data folder does not have all of the state")
	// ErrClustered: the data folder is that of one node of a cluster.
	ErrClustered = errors.New("this server is a node of a cluster: its data folder alone is not the cluster's state")
	// ErrStandby: the files are those of another server's archive.
	ErrStandby = errors.New("this server is a standby: its state comes from another server")
	// ErrTiered: content is in an object store.
	ErrTiered = errors.New("content of this server is in an object store (content-tier), which a snapshot of the data " +
		"folder would not have: use lazuli backup")
	// ErrBusy: requests did not end within the wait for them.
	ErrBusy = errBusy
)

// Scope selects the resources that [Server.Reset] deletes.
type Scope struct {
	// Account is the account; "" is all accounts.
	Account string
	// Services are the services; empty is all services.
	Services []wire.Service
	// Prefix selects containers, queues and tables by the beginning of their names; "" is all of them, and the service
	// properties.
	Prefix string
}

// Reset deletes containers, queues and tables while requests are served, and returns how many of each service. It stops
// at the first failure and can be called again.
func (s *Server) Reset(ctx context.Context, scope Scope) (map[wire.Service]int, error) {
	accounts := s.config.Accounts.Names()
	if scope.Account != "" {
		if s.config.Accounts.Get(scope.Account) == nil {
			return nil, ErrUnknownAccount
		}
		accounts = []string{scope.Account}
	}
	if len(scope.Services) == 0 {
		scope.Services = []wire.Service{wire.Blob, wire.Queue, wire.Table}
	}
	if s.isStandby() {
		return nil, ErrStandby
	}
	if s.config.spread() {
		return nil, fmt.Errorf("a reset of data %w: delete containers, queues and tables as clients do", ErrSpread)
	}
	// Within the gate: a snapshot or a restore would otherwise have, or replace, a half of the deletions.
	if err := s.gate.enter(ctx); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	open := s.services.Load()
	if open == nil {
		return nil, errNotOpen
	}
	deleted := make(map[wire.Service]int)
	for _, account := range accounts {
		for _, svc := range scope.Services {
			n, err := open.reset(svc, account, scope.Prefix)
			if err != nil {
				return nil, fmt.Errorf("reset %s of %s: %w", svc, account, err)
			}
			deleted[svc] += n
		}
	}
	return deleted, nil
}

func (o *services) reset(svc wire.Service, account, prefix string) (int, error) {
	of := o.of(svc, account)
	switch svc {
	case wire.Blob:
		n, err := of.blobs.Reset(account, prefix)
		// With a prefix, the events of what is left are still to be delivered.
		if m := o.events.Load(); m != nil && prefix == "" && err == nil {
			err = m.Discard(account)
		}
		return n, err
	case wire.Queue:
		return of.queues.Reset(account, prefix)
	default:
		return of.tables.Reset(account, prefix)
	}
}

// Save copies the state of all services and accounts to a snapshot inside the data folder, with leases, ETags, dequeue
// counts and receipts. No request is served meanwhile: new requests wait, and ctx bounds the wait for those under way.
// Errors: [ErrBusy], [ErrElsewhere], those of [datadir.Dir.Save].
func (s *Server) Save(ctx context.Context, name string, replace bool) error {
	return s.closed(ctx, func(d *datadir.Dir) error {
		return d.Save(name, replace, func(path string) error { return checkCopy(path, d.Shards()) })
	})
}

// checkCopy reads everything in a copy of a data folder, so that damage neither gets into a snapshot nor from a
// snapshot into the place of the state.
func checkCopy(path string, shards int) error {
	for n := range shards {
		if err := checkShard(datadir.ShardOf(path, n), filepath.Join(path, "queues")); err != nil {
			return err
		}
	}
	return nil
}

// checkShard reads everything in a shard of a copy. logs is the folder with the logs of the queues of all shards.
func checkShard(of datadir.Shard, logs string) error {
	var damage error
	note := func(err error) {
		damage = cmp.Or(damage, err)
	}
	examine := func(path string, buckets []store.Bucket) {
		err := store.Examine(path, buckets, func(d *store.DamageError) { note(d) })
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			note(err)
		}
	}
	examine(of.Tables(), tablestate.Buckets())
	examine(of.Blobs(), record.Buckets())
	if _, err := os.Stat(of.Blobs()); damage == nil && err == nil {
		if _, err := offline.Check(of.Blobs(), of.Extents(), offline.CheckOptions{Report: note}); err != nil {
			note(err)
		}
	}
	queues, err := queuestate.OpenLog(of.QueueState(), logs, of.Log(queuestate.LogName),
		func(d jetstreamfiles.Damage) {
			note(fmt.Errorf("queues: %v", d)) // the copy was made after an orderly stop
		})
	if err == nil {
		note(queues.Check(note))
		note(queues.Close())
	} else if !errors.Is(err, fs.ErrNotExist) {
		note(err)
	}
	note(encryption.CheckScopes(of.EncryptionScopes()))
	return damage
}

// Restore replaces the state by a snapshot; requests wait as during [Server.Save]. Clocks are not restored: what has
// expired since the snapshot is expired. Positions in the logs of changes that are not in the snapshot become unknown.
// A damaged snapshot is refused, and the state stays. Errors: [ErrBusy], [ErrElsewhere], those of
// [datadir.Dir.Restore].
func (s *Server) Restore(ctx context.Context, name string) error {
	return s.closed(ctx, func(d *datadir.Dir) error {
		return d.Restore(name, func(path string) error {
			if err := checkCopy(path, d.Shards()); err != nil {
				return err
			}
			for n := range d.Shards() {
				if err := tablestate.Fork(datadir.ShardOf(path, n).Tables(), time.Now()); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// Snapshots lists the snapshots by name.
func (s *Server) Snapshots() ([]datadir.Snapshot, error) { return s.dir.Snapshots() }

// RemoveSnapshot removes a snapshot. Errors: those of [datadir.Dir.RemoveSnapshot].
func (s *Server) RemoveSnapshot(name string) error { return s.dir.RemoveSnapshot(name) }

// closed calls change while the services are closed and requests wait at the gate.
func (s *Server) closed(ctx context.Context, change func(*datadir.Dir) error) error {
	if s.config.NATS.URL != "" {
		return ErrElsewhere
	}
	if s.config.Cluster != nil {
		return ErrClustered
	}
	if s.isStandby() {
		return ErrStandby
	}
	if s.dir.Temporary() {
		return datadir.ErrTemporary
	}
	if s.config.Tier != nil {
		return ErrTiered
	}
	s.exchange.Lock()
	defer s.exchange.Unlock()
	if !s.ready.Load() {
		return errors.New("stopping")
	}
	open := s.services.Load()
	if open == nil {
		return errNotOpen
	}
	// Requests wait at the gate until this returns, and so find the services that are opened at its end.
	if err := s.gate.shut(ctx, open.board.Release); err != nil {
		return err
	}
	defer s.gate.open()
	s.services.Store(nil)
	if err := open.close(); err != nil {
		return fmt.Errorf("close the services: %w", err)
	}
	// The services are opened also after a change that failed, and whether or not ctx has ended: the server would have
	// none otherwise.
	err := change(s.dir)
	return errors.Join(err, s.open(context.Background()))
}
