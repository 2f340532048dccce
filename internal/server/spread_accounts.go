package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server/accounts"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// The records of added accounts are in shard 0, and what an account has may be in three other shards. Where a node does
// not have all of them, it reads and changes the records by calls to shard 0, follows their changes, and asks the
// shards of an account for what it has. A node that has shard 0 does the same, by calls to itself.

const (
	// accountWait bounds a call that waits for a change of an account.
	accountWait = 20 * time.Second
	// accountSettle bounds the wait after a change for the nodes that serve the account.
	accountSettle = 5 * time.Second
	// accountCall bounds the other calls.
	accountCall = 30 * time.Second
	// accountFile is the copy of the accounts, in the folder of what a node is.
	accountFile = "accounts.json"
)

// replacement is the body of a call that replaces a record, if it is still Old; nil is no record.
type replacement struct {
	Old  []byte `json:"old"`
	Next []byte `json:"next"`
}

// errReplaced: the record is not what the caller has read.
var errReplaced = fmt.Errorf("the record of the account has changed: %w", errCallConflict)

// accountOperations adds the operations for accounts.
func (s *Server) accountOperations(o *services, handle handleCall) {
	records := func(of *shard) state.AccountTable { return state.NewAccountTable(of.blobs.State.Database()) }
	handle(http.MethodGet, "changes", func(of *shard, w http.ResponseWriter, r *http.Request) error {
		at, err := strconv.ParseUint(r.FormValue("at"), 10, 64)
		if err != nil {
			return err
		}
		since := accounts.Position{Journal: r.FormValue("journal"), At: at}
		c, err := o.journal.Since(r.Context(), since, accountWait, o.board.Ended(), records(of))
		if err != nil {
			return err
		}
		return answerCall(w, &c)
	})
	handle(http.MethodGet, "records", func(of *shard, w http.ResponseWriter, r *http.Request) error {
		n, err := strconv.Atoi(r.FormValue("n"))
		if err != nil {
			return err
		}
		page, err := records(of).List(r.FormValue("prefix"), r.FormValue("after"), n)
		if err != nil {
			return err
		}
		list := make([]accounts.Change, 0, len(page))
		for _, a := range page {
			list = append(list, accounts.Change{Name: a.Name, Value: a.Value})
		}
		return answerCall(w, list)
	})
	handle(http.MethodGet, "records/{name}", func(of *shard, w http.ResponseWriter, r *http.Request) error {
		a, _, err := records(of).Stored(r.PathValue("name"))
		if err != nil {
			return err
		}
		return answerCall(w, a.Value) // null if it does not exist
	})
	handle(http.MethodPut, "records/{name}", func(of *shard, w http.ResponseWriter, r *http.Request) error {
		var to replacement
		if err := json.NewDecoder(r.Body).Decode(&to); err != nil {
			return err
		}
		if err := s.writable(); err != nil {
			return err
		}
		err := records(of).ChangeStored(r.PathValue("name"), func(old *state.StoredAccount) (*record.Account, error) {
			var is []byte
			if old != nil {
				is = old.Value
			}
			if !slices.Equal(is, to.Old) || (is == nil) != (to.Old == nil) {
				return nil, errReplaced
			}
			if to.Next == nil {
				return nil, nil
			}
			next, err := record.DecodeAccount(to.Next)
			return &next, err
		})
		if err != nil {
			return err
		}
		return answerCall(w, o.journal.Position())
	})
	handle(http.MethodGet, "has/{name}", func(of *shard, w http.ResponseWriter, r *http.Request) error {
		has, err := o.partOf(of, serviceNamed(r.FormValue("service"))).Has(r.PathValue("name"))
		if err != nil {
			return err
		}
		return answerCall(w, has)
	})
	handle(http.MethodDelete, "data/{name}", func(of *shard, w http.ResponseWriter, r *http.Request) error {
		return o.partOf(of, serviceNamed(r.FormValue("service"))).Delete(r.PathValue("name"))
	})
	handle(http.MethodGet, "namespace/{name}", func(of *shard, w http.ResponseWriter, r *http.Request) error {
		var is namespace
		var err error
		if is.Hierarchical, is.Known, err = of.blobs.State.Accounts.Namespace(r.PathValue("name")); err != nil {
			return err
		}
		return answerCall(w, is)
	})
	handle(http.MethodPost, "scopes/{name}", func(of *shard, _ http.ResponseWriter, r *http.Request) error {
		return of.blobs.DeclareScopes(r.PathValue("name"))
	})
	// Waits until this node serves an account as its record is.
	handle(http.MethodPost, "settled/{name}", func(_ *shard, _ http.ResponseWriter, r *http.Request) error {
		var value []byte
		if err := json.NewDecoder(r.Body).Decode(&value); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(r.Context(), accountSettle)
		defer cancel()
		o.awaitAccount(ctx, r.PathValue("name"), value, o.board.Ended())
		return nil
	})
}

// awaitAccount waits until this node serves an account as its record is, until ctx ends or ended is closed.
func (o *services) awaitAccount(ctx context.Context, name string, value []byte, ended <-chan struct{}) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !o.accounts.Knows(name, value) {
		select {
		case <-tick.C:
		case <-ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

// namespace is the answer of the operation of that name.
type namespace struct{ Hierarchical, Known bool }

// spreadRecords are the records of the accounts, wherever shard 0 is. They implement [accounts.Records].
type spreadRecords struct {
	open   *services
	follow *accounts.Follower
}

func (s spreadRecords) call(method, operation string, query url.Values, body, answer any) error {
	ctx, cancel := context.WithTimeout(s.open.stopping, accountCall)
	defer cancel()
	return s.open.call(ctx, 0, method, operation, query, body, answer)
}

// List implements [accounts.Records].
func (s spreadRecords) List(prefix, after string, n int) (list []state.StoredAccount, err error) {
	var page []accounts.Change
	query := url.Values{"prefix": {prefix}, "after": {after}, "n": {strconv.Itoa(n)}}
	if err := s.call(http.MethodGet, "records", query, nil, &page); err != nil {
		return nil, err
	}
	for _, c := range page {
		list = append(list, state.ReadStoredAccount(c.Name, c.Value))
	}
	return list, nil
}

// Stored implements [accounts.Records].
func (s spreadRecords) Stored(name string) (a state.StoredAccount, ok bool, err error) {
	var value []byte
	if err := s.call(http.MethodGet, "records/"+name, nil, nil, &value); err != nil || value == nil {
		return a, false, err
	}
	return state.ReadStoredAccount(name, value), true, nil
}

// ChangeStored implements [accounts.Records]. It returns when the nodes that lead the account's shards serve the change
// or have taken too long.
func (s spreadRecords) ChangeStored(name string,
	change func(old *state.StoredAccount) (*record.Account, error)) error {
	for {
		var old *state.StoredAccount
		a, ok, err := s.Stored(name)
		if err != nil {
			return err
		}
		var to replacement
		if ok {
			old, to.Old = &a, a.Value
		}
		next, err := change(old)
		if err != nil {
			return err
		}
		if next != nil {
			to.Next = next.Encode()
		}
		var at accounts.Position
		err = s.call(http.MethodPut, "records/"+name, nil, to, &at)
		if errors.Is(err, errCallConflict) {
			continue
		}
		if err != nil {
			return err
		}
		s.settle(name, to.Next, at)
		return nil
	}
}

// settle waits for the nodes to which the next requests of an account go.
func (s spreadRecords) settle(name string, value []byte, at accounts.Position) {
	ctx, cancel := context.WithTimeout(s.open.stopping, accountSettle)
	defer cancel()
	var wait sync.WaitGroup
	wait.Go(func() {
		// This node may still follow another node's journal than that which has noted the change.
		if !s.follow.Await(ctx, at) {
			s.open.awaitAccount(ctx, name, value, nil)
		}
	})
	var asked []int
	for _, svc := range []wire.Service{wire.Blob, wire.Queue, wire.Table} {
		n := s.open.placed.Of(named[svc], name)
		if slices.Contains(asked, n) {
			continue
		}
		asked = append(asked, n)
		wait.Go(func() { _ = s.open.call(ctx, n, http.MethodPost, "settled/"+name, nil, value, nil) })
	}
	wait.Wait()
}

// follower returns what follows the accounts.
func (s *Server) follower(o *services) *accounts.Follower {
	return &accounts.Follower{Path: filepath.Join(s.dir.Cluster(), accountFile), Log: s.config.Log,
		Apply: o.accounts.Follow, All: o.accounts.Replace,
		Source: func(ctx context.Context, since accounts.Position) (c accounts.Changes, err error) {
			query := url.Values{"journal": {since.Journal}, "at": {strconv.FormatUint(since.At, 10)}}
			ctx, cancel := context.WithTimeout(ctx, accountWait+accountCall)
			defer cancel()
			return c, o.call(ctx, 0, http.MethodGet, "changes", query, nil, &c)
		}}
}

// startSpreadAccounts is startAccounts on a node that may not have the records.
func (s *Server) startSpreadAccounts(o *services) error {
	f := s.follower(o)
	records := spreadRecords{o, f}
	ctx := s.stopping
	call := func(account string, method, operation string, answer any) error {
		ctx, cancel := context.WithTimeout(ctx, accountCall)
		defer cancel()
		return o.call(ctx, o.placed.Of(named[wire.Blob], account), method, operation+"/"+account, nil, nil, answer)
	}
	err := s.whenElected(s.stopping, func() error {
		return o.accounts.Start(accounts.Store{Records: records, Follows: true, Contents: o.contents(),
			Load: func() (map[string][]byte, error) { return f.Load(s.stopping) },
			Namespace: func(account string) (hierarchical, known bool, err error) {
				var is namespace
				err = call(account, http.MethodGet, "namespace", &is)
				return is.Hierarchical, is.Known, err
			},
			// As on a node with all shards. One that does not have the account's blobs does not work on them.
			Claim: func(account string, now time.Time) (bool, error) {
				of := o.of(wire.Blob, account)
				if of == nil || of.leaving.Load() || !of.gate.enterOpen() {
					return false, nil
				}
				defer of.gate.leave()
				return of.blobs.State.Membership.Claim(now)
			},
			Declare: func(account string) error { return call(account, http.MethodPost, "scopes", nil) }})
	})
	if err != nil {
		return err
	}
	follow, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { f.Run(follow) })
	o.closers = append(o.closers, func() error {
		o.accounts.Stop()
		cancel()
		running.Wait()
		return nil
	})
	return nil
}

// serviceNamed returns the service of a name.
func serviceNamed(name string) wire.Service {
	for svc := range named {
		if svc.String() == name {
			return svc
		}
	}
	return 0
}

// partOf returns what has the data of accounts of a service in a shard of this node. It deletes nothing of an account
// that is not being removed.
func (o *services) partOf(of *shard, svc wire.Service) accounts.Part {
	stored := func(name string) (state.StoredAccount, bool, error) {
		if o.elsewhere != nil {
			return spreadRecords{open: o}.Stored(name)
		}
		return state.NewAccountTable(o.list()[0].blobs.State.Database()).Stored(name)
	}
	return accounts.RemovedPart{Part: o.wholePartOf(of, svc), Stored: stored}
}

func (o *services) wholePartOf(of *shard, svc wire.Service) accounts.Part {
	switch svc {
	case wire.Blob:
		return accounts.BlobPart{Records: state.NewAccountTable(of.blobs.State.Database()), Service: of.blobs.Service,
			EventLog: of.blobs.State.EventLog(), Events: o.events.Load}
	case wire.Queue:
		return accounts.QueuePart{Service: of.queues.Service}
	default:
		return accounts.TablePart{Service: of.tables.Service}
	}
}

// remotePart is the data of accounts of a service in a shard that is perhaps on other nodes.
type remotePart struct {
	open  *services
	shard int
	svc   wire.Service
}

// Has implements [accounts.Part].
func (p remotePart) Has(account string) (has bool, err error) {
	return has, p.call(http.MethodGet, "has/"+account, &has)
}

// Delete implements [accounts.Part].
func (p remotePart) Delete(account string) error {
	return p.call(http.MethodDelete, "data/"+account, nil)
}

func (p remotePart) call(method, operation string, answer any) error {
	// An account with very much data takes longer; what was begun is continued by the next attempt.
	ctx, cancel := context.WithTimeout(p.open.stopping, 10*accountCall)
	defer cancel()
	return p.open.call(ctx, p.shard, method, operation, url.Values{"service": {p.svc.String()}}, nil, answer)
}
