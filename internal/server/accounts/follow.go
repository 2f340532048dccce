package accounts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/sumfile"
)

// Follower keeps the accounts of a node that does not have their records as the records are: it asks a node that has
// shard 0 for what has changed, and keeps a copy in a file, with which the node starts while none answers.
type Follower struct {
	// Source returns what has changed since a position, as [Journal.Since] does.
	Source func(ctx context.Context, since Position) (Changes, error)
	// Path is the file of the copy. It has keys.
	Path string
	// Apply takes a change, and All all accounts.
	Apply func(name string, value []byte)
	All   func(records map[string][]byte)
	Log   *slog.Logger

	mu      sync.Mutex
	at      Position      // guarded by mu, as is moved
	moved   chan struct{} // closed when at changes; nil while no caller waits
	unsaved map[string][]byte
	whole   bool // unsaved are all accounts
}

const (
	copyKind    = "lazuli-accounts"
	copyVersion = 1
	// followRetry is the pause after a failure.
	followRetry = time.Second
	// firstAnswer bounds the wait of a node that has a copy.
	firstAnswer = 10 * time.Second
	// saveShare is how many times as long as the copy has taken the next one waits, so that a node with very many
	// accounts does not write all the time.
	saveShare = 50
)

// accountCopy is the content of the file.
type accountCopy struct {
	Accounts map[string][]byte `json:"accounts"`
}

// Load returns all accounts: those of now or, if no node with shard 0 answers in time, those of the file. It fails if
// there is no file either.
func (f *Follower) Load(ctx context.Context) (map[string][]byte, error) {
	var kept accountCopy
	unread := sumfile.Read(f.Path, copyKind, copyVersion, &kept)
	if unread != nil && !errors.Is(unread, fs.ErrNotExist) {
		f.Log.Warn("the copy of the accounts cannot be read; waiting for a node that has them", "err", unread)
	}
	ctx, cancel := context.WithTimeout(ctx, firstAnswer)
	defer cancel()
	for {
		c, err := f.Source(ctx, Position{})
		if err == nil {
			records := recordsOf(c.Records)
			f.reached(c.Position)
			f.unsaved, f.whole = maps.Clone(records), true
			f.save()
			return records, nil
		}
		select {
		case <-ctx.Done():
			if unread == nil {
				f.Log.Warn("no node with the records of the accounts answers: the accounts that were added are those "+
					"which this node knew last", "accounts", len(kept.Accounts), "err", err)
				return kept.Accounts, nil
			}
			return nil, fmt.Errorf("no node with their records answers: %w", err)
		case <-time.After(followRetry / 10):
		}
	}
}

func recordsOf(list []Change) map[string][]byte {
	records := make(map[string][]byte, len(list))
	for _, c := range list {
		records[c.Name] = c.Value
	}
	return records
}

// Run follows the changes until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	failing := false
	var rest time.Time // no copy is written before it
	for ctx.Err() == nil {
		// What is not on disk yet is not left there for as long as no account changes.
		wait := ctx
		cancel := func() {}
		if len(f.unsaved) > 0 || f.whole {
			wait, cancel = context.WithDeadline(ctx, rest)
		}
		c, err := f.Source(wait, f.position())
		late := err != nil && ctx.Err() == nil && wait.Err() != nil // only the wait has ended
		cancel()
		switch {
		case err == nil:
			f.take(c)
			if failing {
				f.Log.Info("the accounts are followed again")
			}
			failing = false
		case !late:
			if !failing && ctx.Err() == nil {
				f.Log.Warn("no node with the records of the accounts answers; those that this node knows are served",
					"err", err)
			}
			failing = true
			select {
			case <-ctx.Done():
			case <-time.After(followRetry):
			}
		}
		if now := time.Now(); (len(f.unsaved) > 0 || f.whole) && !now.Before(rest) {
			f.save()
			rest = now.Add(saveShare * time.Since(now))
		}
	}
	if len(f.unsaved) > 0 || f.whole {
		f.save()
	}
}

// take applies changes.
func (f *Follower) take(c Changes) {
	records := recordsOf(c.Records)
	if c.Whole {
		f.All(records)
		f.unsaved, f.whole = records, true
	} else {
		if f.unsaved == nil {
			f.unsaved = map[string][]byte{}
		}
		for _, r := range c.Records {
			f.Apply(r.Name, r.Value)
			f.unsaved[r.Name] = r.Value
		}
	}
	f.reached(c.Position)
}

// save writes what has changed to the file.
func (f *Follower) save() {
	next := accountCopy{Accounts: map[string][]byte{}}
	if !f.whole {
		// The file has what was written before, so that a node does not hold all records in memory for it.
		if err := sumfile.Read(f.Path, copyKind, copyVersion, &next); err != nil {
			f.Log.Warn("the copy of the accounts cannot be read", "err", err)
			f.reached(Position{}) // the next answer has all
			f.unsaved = nil
			return
		}
	}
	for name, value := range f.unsaved {
		if next.Accounts[name] = value; value == nil {
			delete(next.Accounts, name)
		}
	}
	if err := sumfile.Write(disk.OS, f.Path, copyKind, copyVersion, &next); err != nil {
		f.Log.Warn("the copy of the accounts cannot be written; trying again", "err", err)
		return
	}
	f.unsaved, f.whole = nil, false
}

func (f *Follower) position() Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at
}

// reached sets the position.
func (f *Follower) reached(p Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = p
	if f.moved != nil {
		close(f.moved)
		f.moved = nil
	}
}

// Await waits until the node has the accounts of a position, and returns true, or until ctx ends. It returns false at
// once if the node follows another journal: positions of two journals cannot be compared.
func (f *Follower) Await(ctx context.Context, p Position) bool {
	for {
		f.mu.Lock()
		if f.at.Journal != p.Journal || f.at.At >= p.At {
			same := f.at.Journal == p.Journal
			f.mu.Unlock()
			return same
		}
		if f.moved == nil {
			f.moved = make(chan struct{})
		}
		moved := f.moved
		f.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return false
		}
	}
}

// Knows reports whether requests meet an account as a record has it.
func (m *Manager) Knows(name string, value []byte) bool {
	served := m.Served.Get(name)
	if m.Served.Configured(name) {
		return true // and what the record has does not matter
	}
	if value == nil {
		return served == nil
	}
	a := blob.ReadStoredAccount(name, value)
	account, err := accountOf(a)
	if err != nil || a.Removed != 0 {
		return served == nil
	}
	return served != nil && served.Overrides.String() == account.Overrides.String() &&
		slices.EqualFunc(served.Keys, account.Keys, auth.Key.Equal)
}
