package blob

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// FeedFile is a file of a change feed: a block blob that is written as a whole, or an append blob that grows.
type FeedFile struct {
	Name, ContentType string
	Content           *content.Upload
	// Append adds the content to the file.
	Append bool
}

// put stores the file's record.
func (f *FeedFile) put(tx *store.Tx, gen record.Generation, at ticks.Ticks) error {
	var old record.Blob
	it := record.Item{Generation: gen, Name: f.Name}
	// With a time of 0 no record counts as expired: the files of a feed have no expiry time.
	err := record.GetBlob(tx, it, record.BaseSlot, 0, &old)
	exists := err == nil
	if err != nil && !errors.Is(err, record.ErrBlobNotFound) {
		return err
	}
	b := record.Blob{Kind: record.BlockBlob, Created: at, Changed: at, Headers: record.Headers{ContentType: f.ContentType}}
	switch {
	case !f.Append:
		// The container is written by the system alone, so nothing is checked, kept as a version or noted in the feed.
		if exists {
			b.Created = old.Created
			old.Content.Drop(tx)
		}
		b.Headers.MD5 = string(f.Content.MD5)
		b.Content, b.Length = record.LayOut(tx, f.Content.Pieces(tx))
	default:
		if b.Kind = record.AppendBlob; exists {
			b = old
			b.Changed = at
		} else {
			b.Content = record.NewContent(tx)
		}
		// One piece, which continues the content that there is.
		p := f.Content.Pieces(tx)
		p[0].Start = b.Length
		record.PutPieces(tx, b.Content.ID, p)
		b.Length += f.Content.Length
		b.Blocks++
	}
	record.PutBlob(tx, it, record.BaseSlot, &b)
	return nil
}

// Events returns the oldest recorded events of an account: at most n, and no more after size bytes. more is set if
// there are others.
func (s Feed) Events(account string, n, size int) (list []record.Event, more bool, err error) {
	err = s.db.ViewLocal(func(tx *store.Tx) error {
		scope := append([]byte(account), 0)
		cur := tx.Cursor(record.ChangesBucket)
		sum := 0
		for k, v := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
			f, err := record.DecodeEvent(k, v)
			if err != nil {
				return err
			}
			if len(list) == n || sum > size {
				more = true
				break
			}
			list, sum = append(list, f), sum+len(v)
		}
		return nil
	})
	return list, more, err
}

var feedStatePrefix = []byte("feed:")

func feedStateKey(account string) []byte { return append(bytes.Clone(feedStatePrefix), account...) }

// Accounts returns the accounts that have a change feed, or events for one, in no order. It costs a step for each of
// them, and nothing for the others.
func (s Feed) Accounts() (list []string, err error) {
	err = s.db.ViewLocal(func(tx *store.Tx) error {
		seen := map[string]bool{}
		cur := tx.Cursor(record.MetaBucket)
		for k, _ := cur.Seek(feedStatePrefix); bytes.HasPrefix(k, feedStatePrefix); k, _ = cur.Next() {
			seen[string(k[len(feedStatePrefix):])] = true
		}
		cur = tx.Cursor(record.ChangesBucket)
		for k, _ := cur.Seek(nil); k != nil; {
			account, _, _ := bytes.Cut(k, []byte{0})
			seen[string(account)] = true
			// Past all events of the account: their keys have 0x00 after its name.
			k, _ = cur.Seek(append(bytes.Clone(account), 1))
		}
		list = slices.Collect(maps.Keys(seen))
		return nil
	})
	return list, err
}

// State returns the state of the writer of an account's change feed, as [Feed.Commit] stored it; nil for none.
func (s Feed) State(account string) (state []byte, err error) {
	err = s.db.ViewLocal(func(tx *store.Tx) error {
		state = bytes.Clone(tx.Get(record.MetaBucket, feedStateKey(account)))
		return nil
	})
	return state, err
}

// FeedCommit is one step of the writer of a change feed.
type FeedCommit struct {
	Account string
	Files   []FeedFile
	// Events are in the files now, and need not be kept.
	Events []record.Event
	// Before is the writer's state before the step, as Feed.State returned it, and State the one after it.
	Before, State []byte
}

// Commit puts the files of a change feed in place and removes the events that they have, in one transaction, so
// that each event is in the feed once. It creates the container of the feed. If another node was first, it changes
// nothing and fails with [ErrFeedMoved].
func (s Feed) Commit(f *FeedCommit, now ticks.Ticks) error {
	times := make([]ticks.Ticks, len(f.Files)+1)
	for i := range times {
		times[i] = s.ticks.Next(now.Time())
	}
	return s.db.Update(func(tx *store.Tx) error {
		if !bytes.Equal(tx.Get(record.MetaBucket, feedStateKey(f.Account)), f.Before) {
			return ErrFeedMoved
		}
		gen, err := record.GenerationOf(tx, f.Account, record.ChangeFeedContainer)
		if errors.Is(err, record.ErrContainerNotFound) {
			rec := record.Container{Generation: record.Generation(record.NextID(tx)), Changed: s.node.Stamp(tx, times[0])}
			record.PutContainer(tx, f.Account, record.ChangeFeedContainer, &rec)
			gen, err = rec.Generation, nil
		}
		if err != nil {
			return err
		}
		for i := range f.Files {
			if err := f.Files[i].put(tx, gen, s.node.Stamp(tx, times[i+1])); err != nil {
				return err
			}
		}
		for i := range f.Events {
			tx.Delete(record.ChangesBucket, eventlog.Key(f.Account, f.Events[i].Sequence))
		}
		tx.Put(record.MetaBucket, feedStateKey(f.Account), f.State)
		return nil
	})
}
