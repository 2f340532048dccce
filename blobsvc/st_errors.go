package blobsvc

import (
	"errors"
	"fmt"
)

// Containers.
var (
	// errContainerNotFound: the container does not exist.
	errContainerNotFound = errors.New("blob state: container not found")
	// errContainerExists: a container of that name exists.
	errContainerExists = errors.New("blob state: container exists")
	// errContainerNotEmpty: a container for immutable blobs is deleted while it has blobs.
	errContainerNotEmpty = errors.New("blob state: a container for immutable blobs is not empty")
	// errContainerScope: the container has an encryption scope that its blobs cannot override.
	errContainerScope = errors.New("blob state: the container permits no other encryption scope")
)

// Blobs of all types.
var (
	// errBlobNotFound: there is no committed blob, snapshot or version of that name, or it has expired.
	errBlobNotFound = errors.New("blob state: blob not found")
	// errOverwriteForbidden: a write would overwrite a blob, and the caller may only create blobs.
	errOverwriteForbidden = errors.New("blob state: the caller must not overwrite blobs")
	// errBlobType: the operation is not one of this type of blob, or the overwritten blob has another type.
	errBlobType = errors.New("blob state: wrong type of blob")
	// errSnapshotsPresent: a blob with snapshots is deleted without them.
	errSnapshotsPresent = errors.New("blob state: the blob has snapshots")
	// errCurrentVersion: the current version is deleted by its ID. It is deleted as the blob, and then as a previous version.
	errCurrentVersion = errors.New("blob state: the version is the current one")
	// errPermanentDelete: permanent deletion of a base blob, or where the account does not allow it.
	errPermanentDelete = errors.New("blob state: permanent deletion is not allowed")
	// errNotSoftDeleted: permanent deletion of what is not soft-deleted.
	errNotSoftDeleted = errors.New("blob state: not soft-deleted")
	// errExpiry: an expiry time is not in the future, or has no form in a header.
	errExpiry = errors.New("blob state: the expiry time is out of range")
)

// Preconditions.
var (
	// errConditionNotMet: a conditional header or a condition on tags does not hold.
	errConditionNotMet = errors.New("blob state: condition not met")
	// errNotModified: If-None-Match or If-Modified-Since of a read.
	errNotModified = errors.New("blob state: not modified")
	// errBlobExists: If-None-Match: * on a write to a blob that exists.
	errBlobExists = errors.New("blob state: blob exists")
	// errUnsatisfiable: If-None-Match: * on a read.
	errUnsatisfiable = errors.New("blob state: a read cannot satisfy the condition")
	// errAppendPosition, errMaxSize: the conditions of an append.
	errAppendPosition = errors.New("blob state: append position condition not met")
	errMaxSize        = errors.New("blob state: size condition not met")
	// errSequenceNumber: a condition on the sequence number of a page blob.
	errSequenceNumber = errors.New("blob state: sequence number condition not met")
)

// Content.
var (
	// errPageRange: a range of pages is not aligned, or ends past the blob.
	errPageRange = errors.New("blob state: invalid page range")
	// errBlockID: a block ID of another length than those of the blob's uncommitted blocks.
	errBlockID = errors.New("blob state: the block ID has another length than the others")
	// errBlockList: a block list names a block that does not exist, or has a malformed ID.
	errBlockList = errors.New("blob state: invalid block list")
	// errBlockListTooLong: more than maxCommittedBlocks blocks.
	errBlockListTooLong = errors.New("blob state: block list too long")
	// errTooManyBlocks, errTooManyAppends: more uncommitted blocks, or blocks of an append blob, than Azure allows.
	errTooManyBlocks  = errors.New("blob state: too many uncommitted blocks")
	errTooManyAppends = errors.New("blob state: too many committed blocks")
	// errSealed: a write to a sealed append blob.
	errSealed = errors.New("blob state: the blob is sealed")
	// errSequenceOverflow: a sequence number cannot be incremented.
	errSequenceOverflow = errors.New("blob state: sequence number overflow")
	// errPreviousNotFound, errPreviousNewer: the snapshot to which differences are asked for.
	errPreviousNotFound = errors.New("blob state: the previous snapshot does not exist")
	errPreviousNewer    = errors.New("blob state: the previous snapshot is newer")
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

// Lease operations.
var (
	// errLeasePresent: the lease is held under another ID.
	errLeasePresent = errors.New("blob state: lease already present")
	// errLeaseBreakingAcquire, errLeaseBreakingChange: not allowed while the lease is breaking.
	errLeaseBreakingAcquire = errors.New("blob state: a breaking lease cannot be acquired")
	errLeaseBreakingChange  = errors.New("blob state: a breaking lease cannot be changed")
	// errLeaseBroken: a broken lease cannot be renewed.
	errLeaseBroken = errors.New("blob state: a broken lease cannot be renewed")
	// errNoLease: there is no lease to change or break.
	errNoLease = errors.New("blob state: no lease")
	// errLeaseID: the ID is not the lease's.
	errLeaseID = errors.New("blob state: lease ID mismatch")
)

// leaseErrors are the errors of an operation that is not a lease operation, on a resource with a lease.
type leaseErrors struct{ missing, mismatch, lost, notPresent error }

// The leases of blobs.
var (
	// errBlobLeaseMissing: a write without the ID of the lease.
	errBlobLeaseMissing = errors.New("blob state: the blob is leased")
	// errBlobLeaseMismatch: the ID is not the lease's.
	errBlobLeaseMismatch = errors.New("blob state: the lease ID is not the blob's")
	// errBlobLeaseLost: the lease has expired or was broken.
	errBlobLeaseLost = errors.New("blob state: the blob's lease is lost")
	// errBlobNoLease: an ID was sent, and there is no lease.
	errBlobNoLease = errors.New("blob state: the blob has no lease")

	blobLeaseErrors = leaseErrors{errBlobLeaseMissing, errBlobLeaseMismatch, errBlobLeaseLost, errBlobNoLease}
)

// The leases of containers, as those of blobs.
var (
	errContainerLeaseMissing  = errors.New("blob state: the container is leased")
	errContainerLeaseMismatch = errors.New("blob state: the lease ID is not the container's")
	errContainerLeaseLost     = errors.New("blob state: the container's lease is lost")
	errContainerNoLease       = errors.New("blob state: the container has no lease")

	containerLeaseErrors = leaseErrors{errContainerLeaseMissing, errContainerLeaseMismatch, errContainerLeaseLost, errContainerNoLease}
)

// Copies.
var (
	// errCopyPending: a write to the destination of a pending copy, or a copy from it.
	errCopyPending = errors.New("blob state: a copy is pending")
	// errNoCopyPending: a copy is aborted that is not pending.
	errNoCopyPending = errors.New("blob state: no copy is pending")
	// errCopyID: a copy is aborted with the ID of another copy.
	errCopyID = errors.New("blob state: copy ID mismatch")
	// errFiniteLease: a pending copy to a blob whose lease may end before the copy.
	errFiniteLease = errors.New("blob state: the lease must be infinite")
	// errSourceType: the source has a type that the operation does not copy.
	errSourceType = errors.New("blob state: wrong type of source")
	// errSourceTooLarge: the source is larger than the operation copies.
	errSourceTooLarge = errors.New("blob state: the source is too large")
	// errSourceMD5: the MD5 of the source is not the expected one.
	errSourceMD5 = errors.New("blob state: the source has another MD5")
	// errOtherEncryption: a copy cannot refer to the bytes of its source, which are encrypted with another key. Its bytes have to
	// be read and stored again.
	errOtherEncryption = errors.New("blob state: the copy and its source are encrypted with different keys")
	// errCopyEncryption: errOtherEncryption of a page or append blob, which is not implemented.
	errCopyEncryption = errors.New("blob state: a page or append blob cannot be copied to another encryption scope")
	// errCopyGone: a pending copy was aborted, or its blob or container deleted.
	errCopyGone = errors.New("blob state: the copy is no longer pending")
)

// SourceError is an error of the source of a copy, or a condition on it that does not hold.
type SourceError struct{ Err error }

// Error implements error.
func (e *SourceError) Error() string { return "copy source: " + e.Err.Error() }

// Unwrap returns the error of the source.
func (e *SourceError) Unwrap() error { return e.Err }

// Incremental copies.
var (
	// errIncremental: an operation that the destination of incremental copies does not permit.
	errIncremental = errors.New("blob state: the blob is the destination of incremental copies")
	// errIncrementalSource: the destination is of another source.
	errIncrementalSource = errors.New("blob state: the blob has another source of incremental copies")
	// errIncrementalEarlier: the snapshot is not later than the one that was copied last.
	errIncrementalEarlier = errors.New("blob state: the snapshot is not later than the last one copied")
	// errIncrementalNoSnapshot: the source is not a snapshot.
	errIncrementalNoSnapshot = errors.New("blob state: the source of an incremental copy is a snapshot")
)

// Tiers.
var (
	// errTier: the type of blob has no such tier.
	errTier = errors.New("blob state: the blob type has no such tier")
	// errArchived: the content of an archived blob cannot be read.
	errArchived = errors.New("blob state: the blob is archived")
	// errRehydrating: the blob is on its way out of the archive.
	errRehydrating = errors.New("blob state: the blob is being rehydrated")
)

// Immutability.
var (
	// errImmutable, errLegalHold: the blob is protected by a policy, or by a legal hold.
	errImmutable = errors.New("blob state: the blob is immutable")
	errLegalHold = errors.New("blob state: the blob has a legal hold")
	// errPolicyLocked: a locked policy cannot be deleted.
	errPolicyLocked = errors.New("blob state: the immutability policy is locked")
	// errNotImmutable: the container's blobs cannot have policies and holds.
	errNotImmutable = errors.New("blob state: the container is not enabled for immutable blobs")
)

// Stored data.
var (
	// errKey means that a stored key is not of its bucket's form.
	errKey = errors.New("blob state: malformed key")
	// errRecord means that a stored record is not of its form.
	errRecord = errors.New("blob state: malformed record")
)
