package endpoint

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// The failures that handlers find themselves. Codes, statuses and texts are Azure's.
// https://learn.microsoft.com/rest/api/storageservices/blob-service-error-codes
var (
	// ErrInvalidRange: the range begins past the end of the blob.
	ErrInvalidRange = Fail(http.StatusRequestedRangeNotSatisfiable, "InvalidRange",
		"The range specified is invalid for the current size of the resource.")
	// errNoMajority, errUnknownOutcome: a node of a cluster without a majority, which clients try again. The latter also:
	// a server that lost its archive while it wrote.
	errNoMajority = wire.ErrServerBusy.WithMessage(
		"This node of the cluster cannot reach a majority of the nodes. Please retry your request.")
	// errAway: content is only in the tier, which does not answer; clients try again.
	errAway = wire.ErrServerBusy.WithMessage(
		"The object store that has the content of the blob does not answer. Please retry your request.")
	errUnknownOutcome = wire.ErrOperationTimedOut.WithMessage(
		"The write could not be confirmed. The operation may or may not have been completed.")
	// ErrInvalidOperation: the operation is not allowed on this state or kind of resource.
	ErrInvalidOperation = Fail(http.StatusBadRequest, "InvalidOperation", "The specified operation is invalid.")
	// errBothHashes, errBothRangeHashes: the MD5 and the CRC64 of one content.
	errBothHashes = Fail(http.StatusBadRequest, "BothCrc64AndMd5HeaderPresent",
		"Both the CRC64 and the MD5 header are present in the request; only one is allowed.")
	errBothRangeHashes = Fail(http.StatusBadRequest, "BothCrc64AndMd5RangeHeaderPresent",
		"Both x-ms-range-get-content-crc64 header and x-ms-range-get-content-md5 header are present.")
	// errNoHierarchy: an expiry time in an account without blob-expiry.
	errNoHierarchy = Fail(http.StatusBadRequest, "HierarchicalNamespaceNotEnabled",
		"Hierarchical namespace is not enabled for this account. Expiry times need it, or the account's setting blob-expiry.")
	// ErrInvalidTag, ErrTagsTooMany: tags that are sent.
	ErrInvalidTag  = Fail(http.StatusBadRequest, "InvalidTag", "One or more of the specified tags is invalid.")
	ErrTagsTooMany = Fail(http.StatusBadRequest, "TagsTooLarge",
		"The tags specified exceed the maximum permissible limit.")
)

// azureErrors are the errors of the packages below the handlers, and the errors that answer them.
var azureErrors = wire.Answers{
	// The store and the content.
	store.ErrUnavailable:  errNoMajority,
	extent.ErrUnavailable: errNoMajority,
	extent.ErrAway:        errAway,
	store.ErrNodeDisk:     wire.ErrDisk,
	store.ErrUnknown:      errUnknownOutcome,
	store.ErrReadOnly:     wire.ErrWriteToSecondary,
	extent.ErrReadOnly:    wire.ErrWriteToSecondary,
	store.ErrFenced:       wire.ErrFenced,

	// The containers.
	record.ErrContainerNotFound: Fail(http.StatusNotFound, "ContainerNotFound", "The specified container does not exist."),
	state.ErrContainerExists: Fail(http.StatusConflict, "ContainerAlreadyExists",
		"The specified container already exists."),
	state.ErrContainerNotEmpty: Fail(http.StatusConflict, "ContainerImmutableStorageWithVersioningEnabled",
		"The requested operation is not allowed as the container has a immutable storage with versioning enabled."),
	state.ErrContainerScope: Fail(http.StatusForbidden, "RequestForbiddenByContainerEncryptionPolicy",
		"The request is forbidden by the container encryption policy."),

	// Names.
	record.ErrContainerName: wire.ErrInvalidResourceName,
	record.ErrBlobName:      wire.ErrInvalidURI,
	record.ErrNameLength: wire.ErrOutOfRangeInput.WithMessage(
		"The specified resource name length is not within the permissible limits."),

	// Blobs of all types.
	record.ErrBlobNotFound: Fail(http.StatusNotFound, "BlobNotFound", "The specified blob does not exist."),
	state.ErrOverwriteForbidden: Fail(http.StatusForbidden, "UnauthorizedBlobOverwrite",
		"This request is not authorized to perform blob overwrites."),
	state.ErrBlobType: Fail(http.StatusConflict, "InvalidBlobType",
		"The blob type is invalid for this operation."),
	state.ErrSnapshotsPresent: Fail(http.StatusConflict, "SnapshotsPresent",
		"This operation is not permitted because the blob has snapshots."),
	state.ErrCurrentVersion: Fail(http.StatusForbidden, "OperationNotAllowedOnRootBlob",
		"The specified operation is not allowed on root blob."),
	state.ErrPermanentDelete: Fail(http.StatusConflict, "OperationNotAllowedOnSoftDeletedBlob",
		"Permanent deletion is not allowed on this blob."),
	state.ErrPermanentDeleteOff: Fail(http.StatusConflict, "PermanentDeleteIsOff",
		"Permanent deletion is not enabled on this account."),
	state.ErrNotSoftDeleted: Fail(http.StatusConflict, "BlobSnapshotNotSoftDeleted",
		"The specified blob snapshot or version is not soft deleted."),

	// Files and directories of hierarchical accounts.
	tree.ErrPathConflict: Fail(http.StatusConflict, "PathConflict",
		"The specified path, or an element of the path, exists and its resource type is invalid for this operation."),
	state.ErrPathExists: Fail(http.StatusConflict, "PathAlreadyExists", "The specified path already exists."),
	tree.ErrPathDepth: Fail(http.StatusConflict, "PathIsTooDeep",
		"This operation is not permitted as the path is too deep."),
	state.ErrDirectoryNotEmpty: Fail(http.StatusConflict, "DirectoryIsNotEmpty",
		"This operation is not permitted on a non-empty directory."),
	record.ErrAccess:         wire.ErrAuthorizationPermissionMismatch,
	state.ErrNotHierarchical: ErrNeedsTree,
	state.ErrNamespace: Fail(http.StatusConflict, "AccountBeingCreated",
		"The account has containers without the namespace of its settings, or with it."),
	state.ErrIsDirectory: ErrDirectoryExpiry,
	state.ErrFlushPosition: Fail(http.StatusBadRequest, "InvalidFlushPosition",
		"The uploaded data is not contiguous or the position query parameter value is not equal to the length of the file "+
			"after appending the uploaded data."),
	tree.ErrACL: ErrInvalidACL,
	state.ErrRenameSource: Fail(http.StatusConflict, "InvalidRenameSourcePath",
		"The source directory cannot be the same as the destination directory, nor can the destination be a subdirectory "+
			"of the source directory."),
	state.ErrRenameNotFound: Fail(http.StatusNotFound, "SourcePathNotFound",
		"The source path for a rename operation does not exist."),
	state.ErrRenameParent: Fail(http.StatusNotFound, "RenameDestinationParentPathNotFound",
		"The parent directory of the destination path does not exist."),
	state.ErrRenameKinds: Fail(http.StatusConflict, "InvalidSourceOrDestinationResourceType",
		"The source and destination resource type must be identical."),

	// Preconditions.
	state.ErrConditionNotMet: wire.ErrConditionNotMet,
	state.ErrTierCondition: Fail(http.StatusPreconditionFailed, "AccessTierChangeTimeConditionNotMet",
		"The condition specified using access tier change time conditional header(s) is not met."),
	state.ErrNotModified: wire.ErrNotModified,
	state.ErrBlobExists:  Fail(http.StatusConflict, "BlobAlreadyExists", "The specified blob already exists."),
	state.ErrUnsatisfiable: Fail(http.StatusBadRequest, "UnsatisfiableCondition",
		"The request includes an unsatisfiable condition for this operation."),
	state.ErrAppendPosition: Fail(http.StatusPreconditionFailed, "AppendPositionConditionNotMet",
		"The append position condition specified was not met."),
	state.ErrMaxSize: Fail(http.StatusPreconditionFailed, "MaxBlobSizeConditionNotMet",
		"The max blob size condition specified was not met."),
	state.ErrSequenceNumber: Fail(http.StatusPreconditionFailed, "SequenceNumberConditionNotMet",
		"The sequence number condition specified was not met."),

	// Content.
	state.ErrPageRange: Fail(http.StatusRequestedRangeNotSatisfiable, "InvalidPageRange",
		"The page range specified is invalid."),
	state.ErrBlockID: Fail(http.StatusBadRequest, "InvalidBlobOrBlock",
		"The specified blob or block content is invalid."),
	state.ErrBlockList: Fail(http.StatusBadRequest, "InvalidBlockList", "The specified block list is invalid."),
	state.ErrBlockListTooLong: Fail(http.StatusBadRequest, "BlockListTooLong",
		"The block list may not contain more than 50,000 blocks."),
	state.ErrTooManyBlocks: Fail(http.StatusConflict, "BlockCountExceedsLimit",
		"The uncommitted block count cannot exceed the maximum limit of 100,000 blocks."),
	state.ErrTooManyAppends: Fail(http.StatusConflict, "BlockCountExceedsLimit",
		"The committed block count cannot exceed the maximum limit of 50,000 blocks."),
	// Recorded in the issues of clients and in Hadoop's sources; the reference has the first in the error codes of the
	// Blob service.
	state.ErrLake: Fail(http.StatusConflict, "BlobOperationNotSupported", "Blob operation is not supported."),
	state.ErrNotLakeAppend: Fail(http.StatusConflict, "InvalidAppendOperation",
		"The resource was created or modified by the Azure Blob Service API and cannot be appended to by the Azure Data "+
			"Lake Storage Service API."),
	state.ErrNotLakeFlush: Fail(http.StatusConflict, "InvalidFlushOperation",
		"The resource was created or modified by the Azure Blob Service API and cannot be written to by the Azure Data "+
			"Lake Storage Service API."),
	// Hadoop finds by it that an append, which it repeats, had succeeded before.
	state.ErrAppendOffset: Fail(http.StatusBadRequest, "InvalidQueryParameterValue",
		"Value for one of the query parameters specified in the request URI is invalid."),
	state.ErrSealed: Fail(http.StatusConflict, "BlobIsSealed",
		"The blob is sealed and its contents cannot be modified."),
	state.ErrSequenceOverflow: Fail(http.StatusConflict, "SequenceNumberIncrementTooLarge",
		"The sequence number increment cannot be performed because it would result in overflow of the sequence number."),
	state.ErrPreviousNotFound: Fail(http.StatusConflict, "PreviousSnapshotNotFound",
		"The previous snapshot is not found."),
	// Put Blob and Copy Blob replace a blob. https://learn.microsoft.com/rest/api/storageservices/get-page-ranges#remarks
	state.ErrReplaced: Fail(http.StatusConflict, "BlobOverwritten",
		"The blob has been recreated since the previous snapshot was taken."),
	state.ErrPreviousNewer: Fail(http.StatusBadRequest, "PreviousSnapshotCannotBeNewer",
		"The prevsnapshot query parameter value cannot be newer than snapshot query parameter value."),

	// Lease operations.
	lease.ErrPresent: Fail(http.StatusConflict, "LeaseAlreadyPresent", "There is already a lease present."),
	lease.ErrBreakingAcquire: Fail(http.StatusConflict, "LeaseIsBreakingAndCannotBeAcquired",
		"The lease ID matched, but the lease is currently in breaking state and cannot be acquired until it is broken."),
	lease.ErrBreakingChange: Fail(http.StatusConflict, "LeaseIsBreakingAndCannotBeChanged",
		"The lease ID matched, but the lease is currently in breaking state and cannot be changed."),
	lease.ErrBroken: Fail(http.StatusConflict, "LeaseIsBrokenAndCannotBeRenewed",
		"The lease ID matched, but the lease has been broken explicitly and cannot be renewed."),
	lease.ErrNoLease: Fail(http.StatusConflict, "LeaseNotPresentWithLeaseOperation",
		"There is currently no lease on the blob."),
	lease.ErrID: Fail(http.StatusConflict, "LeaseIdMismatchWithLeaseOperation",
		"The lease ID specified did not match the lease ID for the blob."),

	// Other operations on leased resources.
	lease.ErrBlobMissing: Fail(http.StatusPreconditionFailed, "LeaseIdMissing",
		"There is currently a lease on the blob and no lease ID was specified in the request."),
	lease.ErrBlobMismatch: Fail(http.StatusPreconditionFailed, "LeaseIdMismatchWithBlobOperation",
		"The lease ID specified did not match the lease ID for the blob."),
	lease.ErrBlobLost: Fail(http.StatusPreconditionFailed, "LeaseLost",
		"A lease ID was specified, but the lease for the blob has expired."),
	lease.ErrBlobNoLease: Fail(http.StatusPreconditionFailed, "LeaseNotPresentWithBlobOperation",
		"There is currently no lease on the blob."),
	lease.ErrContainerMissing: Fail(http.StatusPreconditionFailed, "LeaseIdMissing",
		"There is currently a lease on the container and no lease ID was specified in the request."),
	lease.ErrContainerMismatch: Fail(http.StatusPreconditionFailed, "LeaseIdMismatchWithContainerOperation",
		"The lease ID specified did not match the lease ID for the container."),
	lease.ErrContainerLost: Fail(http.StatusPreconditionFailed, "LeaseLost",
		"A lease ID was specified, but the lease for the container has expired."),
	lease.ErrContainerNoLease: Fail(http.StatusPreconditionFailed, "LeaseNotPresentWithContainerOperation",
		"There is currently no lease on the container."),

	// Copies.
	state.ErrCopyPending: Fail(http.StatusConflict, "PendingCopyOperation",
		"There is currently a pending copy operation."),
	state.ErrNoCopyPending: Fail(http.StatusConflict, "NoPendingCopyOperation",
		"There is currently no pending copy operation."),
	state.ErrCopyID: Fail(http.StatusConflict, "CopyIdMismatch",
		"The specified copy ID did not match the copy ID for the pending copy operation."),
	state.ErrFiniteLease: Fail(http.StatusPreconditionFailed, "InfiniteLeaseDurationRequired",
		"The lease ID matched, but the specified lease must be an infinite-duration lease."),
	state.ErrSourceType: Fail(http.StatusConflict, "InvalidSourceBlobType",
		"The copy source blob type is invalid for this operation."),
	// https://github.com/Azure/azure-sdk-for-go/issues/20942
	state.ErrSyncSourceType: Fail(http.StatusConflict, "CannotVerifyCopySource",
		"The copy source must be a block blob."),
	state.ErrSourceTooLarge: Fail(http.StatusConflict, "CopySourceSizeExceeded",
		"The source of a synchronous copy is larger than 256 MiB."),
	state.ErrCopyEncryption: wire.ErrNotImplemented.WithMessage(
		"Copies of page and append blobs to another encryption scope are not implemented."),
	state.ErrIncremental: Fail(http.StatusConflict, "OperationNotAllowedOnIncrementalCopyBlob",
		"The specified operation is not allowed on an incremental copy blob."),
	state.ErrIncrementalSource: Fail(http.StatusConflict, "IncrementalCopyBlobMismatch",
		"The specified source blob is different than the copy source of the existing incremental copy blob."),
	state.ErrIncrementalEarlier: Fail(http.StatusConflict, "IncrementalCopyOfEarlierSnapshotNotAllowed",
		"The specified snapshot is earlier than the last snapshot copied into the incremental copy blob."),
	state.ErrIncrementalNoSnapshot: Fail(http.StatusConflict, "IncrementalCopySourceMustBeSnapshot",
		"The source for incremental copy request must be a snapshot."),
	state.ErrCopyGone: Fail(http.StatusConflict, "NoPendingCopyOperation",
		"There is currently no pending copy operation."),

	// Tiers.
	state.ErrTier: Fail(http.StatusBadRequest, "InvalidBlobTier",
		"The specified blob tier is invalid for the blob type."),
	state.ErrArchived: Fail(http.StatusConflict, "BlobArchived",
		"This operation is not permitted on an archived blob."),
	state.ErrArchivedRecord: Fail(http.StatusConflict, "BlobOperationNotSupported",
		"The specified operation is not supported on an archived snapshot or version."),
	state.ErrRehydrating: Fail(http.StatusConflict, "BlobBeingRehydrated",
		"This operation is not permitted because the blob is being rehydrated."),

	// Immutability. Azure does not document the code for a container that is not enabled.
	record.ErrImmutable: Fail(http.StatusConflict, "BlobImmutableDueToPolicy",
		"This operation is not permitted as the blob is immutable due to a policy."),
	record.ErrLegalHold: Fail(http.StatusConflict, "BlobImmutableDueToLegalHold",
		"This operation is not permitted as the blob is immutable due to one or more legal holds."),
	state.ErrPolicyLocked: Fail(http.StatusConflict, "ImmutabilityPolicyDeleteOnLockedPolicy",
		"The immutability policy is locked and cannot be deleted."),
	state.ErrNotImmutable: Fail(http.StatusConflict, "ImmutableStorageWithVersioningNotEnabled",
		"The container is not enabled for immutable storage with versioning."),

	// Encryption. Azure answers to a missing scope as to a missing key, and to a key for a blob in a scope as to a wrong
	// one (recorded); that it does so to a wrong scope is an assumption.
	encryption.ErrKeyMissing: Fail(http.StatusConflict, "BlobUsesCustomerSpecifiedEncryption",
		"The blob is encrypted with customer specified encryption, but it was not provided in the request."),
	encryption.ErrKeyUnused: Fail(http.StatusConflict, "BlobDoesNotUseCustomerSpecifiedEncryption",
		"The blob is not encrypted with customer specified encryption, but one was provided in the request."),
	encryption.ErrKeyMismatch: Fail(http.StatusConflict, "BlobCustomerSpecifiedEncryptionMismatch",
		"The given customer specified encryption does not match the encryption used to encrypt the blob."),
	encryption.ErrScopeNotFound: Fail(http.StatusConflict, "EncryptionScopeNotAvailable",
		"The given encryption scope is not available."),
	encryption.ErrScopeDisabled: Fail(http.StatusForbidden, "EncryptionScopeDisabled",
		"The specified encryption scope is disabled."),
	encryption.ErrScopeMismatch: Fail(http.StatusConflict, "BlobCustomerSpecifiedEncryptionMismatch",
		"The given customer specified encryption does not match the encryption used to encrypt the blob."),
}

// AzureError returns the Azure error that answers err; err itself if it has none and is a defect.
func AzureError(err error) error {
	var (
		body *content.BodyError
		rng  *state.RangeError
		sum  *state.SourceMD5Error
	)
	switch {
	case errors.As(err, &body):
		return wire.BodyError(body.Err)
	case errors.As(err, &rng):
		return ErrInvalidRange.WithHeader("Content-Range", "bytes */"+strconv.FormatInt(rng.Length, 10))
	case errors.As(err, &sum):
		return MD5Mismatch([]byte(sum.Want), []byte(sum.Has))
	}
	return azureErrors.Of(err)
}

// Fail returns an error of the protocol.
func Fail(status int, code, message string) *wire.Error {
	return &wire.Error{Status: status, Code: code, Message: message}
}

// CopyError returns the error of Copy Blob for its source: a condition that does not hold has its own code, unless it
// is one on tags (recorded).
func CopyError(err error) error {
	var src *state.SourceError
	switch {
	case !errors.As(err, &src):
		return err
	case errors.Is(err, state.ErrTagCondition):
		return wire.ErrConditionNotMet
	// ErrBlobExists is x-ms-source-if-none-match: * of a rename, whose source is checked as a write to it.
	case errors.Is(err, state.ErrConditionNotMet), errors.Is(err, state.ErrNotModified),
		errors.Is(err, state.ErrBlobExists):
		return errSourceConditionNotMet
	}
	return src.Err
}

// errSourceConditionNotMet: a conditional header of the source does not hold.
var errSourceConditionNotMet = Fail(http.StatusPreconditionFailed, "SourceConditionNotMet",
	"The source condition specified using HTTP conditional header(s) is not met.")

// ErrDirectoryExpiry: an expiry time for a directory.
var ErrDirectoryExpiry = Fail(http.StatusBadRequest, "ExpiryNotSupportedForDirectory",
	"Set expiry is not supported for a directory.")

// ErrNeedsTree: an operation of accounts with a hierarchical namespace.
var ErrNeedsTree = Fail(http.StatusBadRequest, "HierarchicalNamespaceNotEnabled",
	"Hierarchical namespace is not enabled for this account.")

// ErrInvalidACL: an access control list that cannot be read.
// The misspelling is the service's (recorded: SetAccessControlAsync_Error of the SDK for .NET).
var ErrInvalidACL = Fail(http.StatusBadRequest, "InvaldAccessControlList", "The access control list value is invalid.")
