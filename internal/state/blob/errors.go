package blob

import (
	"errors"
	"fmt"
)

// Containers.
var (
	// ErrContainerExists: a container of that name exists.
	ErrContainerExists = errors.New("blob state: container exists")
	// ErrContainerNotEmpty: a container for immutable blobs is deleted while it has blobs.
	ErrContainerNotEmpty = errors.New("blob state: a container for immutable blobs is not empty")
	// ErrContainerScope: the container has an encryption scope that its blobs cannot override.
	ErrContainerScope = errors.New("blob state: the container permits no other encryption scope")
)

// Blobs of all types.
var (
	// ErrOverwriteForbidden: a write would overwrite a blob, and the caller may only create blobs.
	ErrOverwriteForbidden = errors.New("blob state: the caller must not overwrite blobs")
	// ErrBlobType: the operation is not one of this type of blob, or the overwritten blob has another type.
	ErrBlobType = errors.New("blob state: wrong type of blob")
	// ErrSnapshotsPresent: a blob with snapshots is deleted without them.
	ErrSnapshotsPresent = errors.New("blob state: the blob has snapshots")
	// ErrCurrentVersion: the current version is deleted by its ID. It is deleted as the blob, and then as a previous
	// version.
	ErrCurrentVersion = errors.New("blob state: the version is the current one")
	// ErrPermanentDelete: permanent deletion of a base blob.
	ErrPermanentDelete = errors.New("blob state: permanent deletion is not allowed")
	// ErrPermanentDeleteOff: permanent deletion where the account does not allow it.
	ErrPermanentDeleteOff = errors.New("blob state: permanent deletion is off")
	// ErrNotSoftDeleted: permanent deletion of a record that is not soft-deleted.
	ErrNotSoftDeleted = errors.New("blob state: not soft-deleted")
	// ErrExpiry: an expiry time is not in the future, or has no form in a header.
	ErrExpiry = errors.New("blob state: the expiry time is out of range")
)

// Preconditions.
var (
	// ErrConditionNotMet: a conditional header or a condition on tags does not hold.
	ErrConditionNotMet = errors.New("blob state: condition not met")
	// ErrTagCondition is [ErrConditionNotMet] for a condition on tags.
	ErrTagCondition = fmt.Errorf("%w: tags", ErrConditionNotMet)
	// ErrTierCondition: a condition on when the access tier was set does not hold.
	ErrTierCondition = errors.New("blob state: condition on the time of the tier not met")
	// ErrNotModified: If-None-Match or If-Modified-Since of a read.
	ErrNotModified = errors.New("blob state: not modified")
	// ErrBlobExists: If-None-Match: * on a write to a blob that exists.
	ErrBlobExists = errors.New("blob state: blob exists")
	// ErrUnsatisfiable: If-None-Match: * on a read.
	ErrUnsatisfiable = errors.New("blob state: a read cannot satisfy the condition")
	// ErrAppendPosition, errMaxSize: the conditions of an append.
	ErrAppendPosition = errors.New("blob state: append position condition not met")
	ErrMaxSize        = errors.New("blob state: size condition not met")
	// ErrSequenceNumber: a condition on the sequence number of a page blob.
	ErrSequenceNumber = errors.New("blob state: sequence number condition not met")
)

// Content.
var (
	// ErrPageRange: a range of pages is not aligned, or ends past the blob.
	ErrPageRange = errors.New("blob state: invalid page range")
	// ErrBlockID: the block ID has another length than the blob's uncommitted blocks.
	ErrBlockID = errors.New("blob state: the block ID has another length than the others")
	// ErrBlockList: a block list names a block that does not exist, or has a malformed ID.
	ErrBlockList = errors.New("blob state: invalid block list")
	// ErrBlockListTooLong: more than maxCommittedBlocks blocks.
	ErrBlockListTooLong = errors.New("blob state: block list too long")
	// ErrTooManyBlocks, errTooManyAppends: more uncommitted blocks, or blocks of an append blob, than Azure allows.
	ErrTooManyBlocks  = errors.New("blob state: too many uncommitted blocks")
	ErrTooManyAppends = errors.New("blob state: too many committed blocks")
	// ErrLake: a block for a file that Path Create made. ErrNotLakeAppend and ErrNotLakeFlush: the reverse.
	ErrLake          = errors.New("blob state: a file of the dfs endpoint takes no blocks")
	ErrNotLakeAppend = errors.New("blob state: an append to a file of the Blob endpoint")
	ErrNotLakeFlush  = errors.New("blob state: a flush of a file of the Blob endpoint")
	// ErrAppendOffset: an append that does not begin at the end of an append blob.
	ErrAppendOffset = errors.New("blob state: the append does not begin at the end of the append blob")
	// ErrSealed: a write to a sealed append blob.
	ErrSealed = errors.New("blob state: the blob is sealed")
	// ErrSequenceOverflow: a sequence number cannot be incremented.
	ErrSequenceOverflow = errors.New("blob state: sequence number overflow")
	// ErrPreviousNotFound, errPreviousNewer: the snapshot to which differences are asked for.
	ErrPreviousNotFound = errors.New("blob state: the previous snapshot does not exist")
	ErrPreviousNewer    = errors.New("blob state: the previous snapshot is newer")
	// ErrReplaced: the blob was written as a whole after the snapshot to which differences are asked for.
	ErrReplaced = errors.New("blob state: the blob was replaced after the previous snapshot")
)

// RangeError is a range that begins at or past the end of a blob.
type RangeError struct {
	// Length is the blob's length in bytes.
	Length int64
}

// Error implements error.
func (e *RangeError) Error() string {
	return fmt.Sprintf("blob state: the range begins past the end of a blob of %d bytes", e.Length)
}

// Copies.
var (
	// ErrCopyPending: a write to the destination of a pending copy, or a copy from it.
	ErrCopyPending = errors.New("blob state: a copy is pending")
	// ErrNoCopyPending: a copy is aborted that is not pending.
	ErrNoCopyPending = errors.New("blob state: no copy is pending")
	// ErrCopyID: a copy is aborted with the ID of another copy.
	ErrCopyID = errors.New("blob state: copy ID mismatch")
	// ErrFiniteLease: a pending copy to a blob whose lease may end before the copy.
	ErrFiniteLease = errors.New("blob state: the lease must be infinite")
	// ErrSyncSourceType: the source of a synchronous copy is not a block blob.
	ErrSyncSourceType = errors.New("blob state: source of a synchronous copy is not a block blob")
	// ErrSourceType: the source has a type that the operation does not copy.
	ErrSourceType = errors.New("blob state: wrong type of source")
	// ErrSourceTooLarge: the source is larger than the operation copies.
	ErrSourceTooLarge = errors.New("blob state: the source is too large")
	// ErrSourceChanged: the source of a copy is not in the state that was read before.
	ErrSourceChanged = errors.New("blob state: the source of the copy has changed")
	// errOtherEncryption: a copy cannot refer to the bytes of its source, which are encrypted with another key. Its bytes
	// have to be read and stored again.
	errOtherEncryption = errors.New("blob state: the copy and its source are encrypted with different keys")
	// ErrCopyEncryption: errOtherEncryption of a page or append blob, which is not implemented.
	ErrCopyEncryption = errors.New("blob state: a page or append blob cannot be copied to another encryption scope")
	// ErrCopyGone: a pending copy was aborted, or its blob or container deleted.
	ErrCopyGone = errors.New("blob state: the copy is no longer pending")
	// ErrCopyMoved: another node of the cluster has continued a pending copy.
	ErrCopyMoved = errors.New("blob state: the copy has continued elsewhere")
)

// ErrFeedMoved: another node of the cluster has written to a change feed.
var ErrFeedMoved = errors.New("blob state: the change feed has continued elsewhere")

// SourceError is an error of the source of a copy, or a condition on it that does not hold.
type SourceError struct{ Err error }

// Error implements error.
func (e *SourceError) Error() string { return "copy source: " + e.Err.Error() }

// Unwrap returns the error of the source.
func (e *SourceError) Unwrap() error { return e.Err }

// Incremental copies.
var (
	// ErrIncremental: an operation that the destination of incremental copies does not permit.
	ErrIncremental = errors.New("blob state: the blob is the destination of incremental copies")
	// ErrIncrementalSource: the destination is of another source.
	ErrIncrementalSource = errors.New("blob state: the blob has another source of incremental copies")
	// ErrIncrementalEarlier: the snapshot is not later than the one that was copied last.
	ErrIncrementalEarlier = errors.New("blob state: the snapshot is not later than the last one copied")
	// ErrIncrementalNoSnapshot: the source is not a snapshot.
	ErrIncrementalNoSnapshot = errors.New("blob state: the source of an incremental copy is a snapshot")
)

// Tiers.
var (
	// ErrTier: the type of blob has no such tier.
	ErrTier = errors.New("blob state: the blob type has no such tier")
	// ErrArchived: the content of an archived blob cannot be read.
	ErrArchived = errors.New("blob state: the blob is archived")
	// ErrArchivedRecord: a snapshot or a previous version is to leave the archive.
	ErrArchivedRecord = errors.New("blob state: a snapshot or version leaves the archive only as a copy")
	// ErrRehydrating: the blob is on its way out of the archive.
	ErrRehydrating = errors.New("blob state: the blob is being rehydrated")
)

// Immutability.
var (
	// ErrPolicyLocked: a locked policy cannot be deleted.
	ErrPolicyLocked = errors.New("blob state: the immutability policy is locked")
	// ErrNotImmutable: the container's blobs cannot have policies and holds.
	ErrNotImmutable = errors.New("blob state: the container is not enabled for immutable blobs")
)

// Files and directories of trees.
var (
	// ErrPathExists: what is restored exists.
	ErrPathExists = errors.New("blob state: the path exists")
	// ErrDirectoryNotEmpty: a directory with entries is deleted, or replaced.
	ErrDirectoryNotEmpty = errors.New("blob state: the directory is not empty")
	// ErrNotHierarchical: the operation needs a container of a hierarchical account.
	ErrNotHierarchical = errors.New("blob state: the account has no hierarchical namespace")
	// ErrNamespace: a new container would be of another kind than those that the account has.
	ErrNamespace = errors.New("blob state: the account has containers of the other kind of namespace")
	// ErrIsDirectory: the operation is not one of directories.
	ErrIsDirectory = errors.New("blob state: the path is a directory")
	// ErrFlushPosition: the flushed content would have gaps, or be shorter than what the file has.
	ErrFlushPosition = errors.New("blob state: invalid flush position")
)

// Renames.
var (
	// ErrRenameSource: the source is the root, or the destination is the source or below it.
	ErrRenameSource = errors.New("blob state: the source cannot be renamed to the destination")
	// ErrRenameNotFound: the source does not exist.
	ErrRenameNotFound = errors.New("blob state: the source of the rename does not exist")
	// ErrRenameParent: the directory of the destination does not exist.
	ErrRenameParent = errors.New("blob state: the parent of the destination does not exist")
	// ErrRenameKinds: a file cannot replace a directory, nor a directory a file.
	ErrRenameKinds = errors.New("blob state: source and destination of the rename are of different kinds")
)

// SourceMD5Error is the failure of a copy whose source has another MD5 than the client expects.
type SourceMD5Error struct{ Want, Has string }

func (e *SourceMD5Error) Error() string { return "blob state: the source has another MD5" }
