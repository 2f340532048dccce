package blob

import (
	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/maintain"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// core holds what the subjects share: the files, the settings, and what a process keeps in memory. Its methods run the
// transactions of all subjects; all are unexported, since the subjects embed it.
type core struct {
	node *replica.Node
	// db and extents are those of node.
	db       *store.DB
	extents  *extent.Store
	scopes   *encryption.Scopes
	policyOf func(account string) Policy
	changed  func(account, container, blob string)
	ticks    ticks.Source

	maintenance *maintain.Maintenance

	// log is the event log; logEvents is set if it gets the events of blobs.
	log       *eventlog.Log
	logEvents bool
}

// open opens n bytes from off of b, which was unlocked.
func (s *core) open(tx *store.Tx, b *record.Blob, off, n int64) (*content.Reader, error) {
	x, err := b.Content.Extract(tx, off, n, b.Length)
	if err != nil {
		return nil, err
	}
	return x.Open(s.extents, b.Encryption, b.Cipher)
}

// Accounts has the operations on what an account has as a whole.
type Accounts struct{ *core }

// Containers has the operations on containers.
type Containers struct{ *core }

// Blobs has the operations on blobs of all types, their snapshots and versions.
type Blobs struct{ *core }

// BlockBlobs has the operations on the blocks of block blobs, committed and uncommitted.
type BlockBlobs struct{ *core }

// AppendBlobs has the operations on append blobs alone.
type AppendBlobs struct{ *core }

// PageBlobs has the operations on the pages of page blobs.
type PageBlobs struct{ *core }

// Tags has the operations on the tags of blobs.
type Tags struct{ *core }

// Immutability has the operations on immutability policies and legal holds.
type Immutability struct{ *core }

// Copies has the operations that copy blobs, and those on copies that go on in the background.
type Copies struct{ *core }

// Paths has the operations on files and directories that the dfs endpoint alone has.
type Paths struct{ *core }

// Feed has the operations of the writer of the change feed.
type Feed struct{ *core }

// Policy is the settings of an account that writes depend on.
type Policy struct {
	// Versioning keeps the state of a blob before each write as a version.
	Versioning bool
	// ChangeFeed records events for the change feed.
	ChangeFeed bool
	// AccessTimes tracks when blobs were last read.
	AccessTimes bool
	// Immutability lets the blobs of new containers have immutability policies and legal holds.
	Immutability bool
	// RetentionDays is for how many days deleted blobs are kept, ContainerDays for how many days deleted containers are; 0
	// keeps nothing.
	RetentionDays, ContainerDays int64
	// Hierarchical makes new containers trees.
	Hierarchical bool
	// PermanentDelete allows the deletion of soft-deleted records.
	PermanentDelete bool
}
