package blobsvc

import (
	"errors"
	"net/http"
	"reflect"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/encryption"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// The failures of the Blob service. Codes, statuses and texts are Azure's.
// https://learn.microsoft.com/rest/api/storageservices/blob-service-error-codes
var (
	// errContainerNotFound: the container of the request does not exist.
	errContainerNotFound = fail(http.StatusNotFound, "ContainerNotFound", "The specified container does not exist.")
	// errContainerAlreadyExists: Create Container with a name in use.
	errContainerAlreadyExists = fail(http.StatusConflict, "ContainerAlreadyExists", "The specified container already exists.")
	// errBlobNotFound: no committed blob, snapshot or version of that name.
	errBlobNotFound = fail(http.StatusNotFound, "BlobNotFound", "The specified blob does not exist.")
	// errUnauthorizedBlobOverwrite: a write to a blob that exists, with a token that may create blobs and no more.
	errUnauthorizedBlobOverwrite = fail(http.StatusForbidden, "UnauthorizedBlobOverwrite", "This request is not authorized to perform blob overwrites.")
	// errBlobAlreadyExists: If-None-Match: * on a write to a blob that exists.
	errBlobAlreadyExists = fail(http.StatusConflict, "BlobAlreadyExists", "The specified blob already exists.")
	// errInvalidBlobType: the operation is not one of this type of blob, or the overwritten blob has another type.
	errInvalidBlobType = fail(http.StatusConflict, "InvalidBlobType", "The blob type is invalid for this operation.")
	// errInvalidRange: the range begins past the end of the blob.
	errInvalidRange = fail(http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "The range specified is invalid for the current size of the resource.")
	// errInvalidPageRange: a range that is not aligned to 512 bytes or ends past the page blob.
	errInvalidPageRange = fail(http.StatusRequestedRangeNotSatisfiable, "InvalidPageRange", "The page range specified is invalid.")
	// errUnsatisfiableCondition: If-None-Match: * on a read.
	errUnsatisfiableCondition = fail(http.StatusBadRequest, "UnsatisfiableCondition", "The request includes an unsatisfiable condition for this operation.")
	// errInvalidOperation: what was asked for is not allowed on this state or kind of resource.
	errInvalidOperation = fail(http.StatusBadRequest, "InvalidOperation", "The specified operation is invalid.")
	// errSnapshotsPresent: Delete Blob without x-ms-delete-snapshots on a blob that has some.
	errSnapshotsPresent = fail(http.StatusConflict, "SnapshotsPresent", "This operation is not permitted because the blob has snapshots.")

	// errInvalidBlobOrBlock: a block id of another length than those of the blob's uncommitted blocks, or a block for a
	// blob of another type.
	errInvalidBlobOrBlock = fail(http.StatusBadRequest, "InvalidBlobOrBlock", "The specified blob or block content is invalid.")
	// errInvalidBlockList: a block list names a block that is not there.
	errInvalidBlockList = fail(http.StatusBadRequest, "InvalidBlockList", "The specified block list is invalid.")
	// errBlockListTooLong: more than 50,000 blocks.
	errBlockListTooLong = fail(http.StatusBadRequest, "BlockListTooLong", "The block list may not contain more than 50,000 blocks.")
	// errBlockCountExceedsLimit: more than 100,000 uncommitted blocks, or 50,000 of an append blob.
	errBlockCountExceedsLimit = fail(http.StatusConflict, "BlockCountExceedsLimit", "The uncommitted block count cannot exceed the maximum limit of 100,000 blocks.")
	errAppendCountExceeded    = fail(http.StatusConflict, "BlockCountExceedsLimit", "The committed block count cannot exceed the maximum limit of 50,000 blocks.")

	// x-ms-range-get-content-md5 without a range, or over 4 MiB.
	errRangeHashNeedsRange = wire.MissingHeader("Range")
	errRangeHashTooLarge   = fail(http.StatusBadRequest, "OutOfRangeInput", "One of the request inputs is out of range.")

	// errAppendPosition, errMaxBlobSize: the conditions of Append Block.
	errAppendPosition = fail(http.StatusPreconditionFailed, "AppendPositionConditionNotMet", "The append position condition specified was not met.")
	errMaxBlobSize    = fail(http.StatusPreconditionFailed, "MaxBlobSizeConditionNotMet", "The max blob size condition specified was not met.")
	// errBlobIsSealed: a write to a sealed append blob.
	errBlobIsSealed = fail(http.StatusConflict, "BlobIsSealed", "The specified blob is sealed and its contents can't be modified unless the blob is re-created after a delete.")

	// errSequenceNumber: the conditions of Put Page. The others: a sequence number that cannot be set.
	errSequenceNumber          = fail(http.StatusPreconditionFailed, "SequenceNumberConditionNotMet", "The sequence number condition specified was not met.")
	errSequenceNumberTooLarge  = fail(http.StatusConflict, "SequenceNumberIncrementTooLarge", "The sequence number increment cannot be performed because it would result in overflow of the sequence number.")
	errPreviousSnapshotMissing = fail(http.StatusConflict, "PreviousSnapshotNotFound", "The previous snapshot is not found.")

	// The lease operations.
	errLeaseAlreadyPresent                = fail(http.StatusConflict, "LeaseAlreadyPresent", "There is already a lease present.")
	errLeaseIsBreakingAndCannotBeAcquired = fail(http.StatusConflict, "LeaseIsBreakingAndCannotBeAcquired", "The lease ID matched, but the lease is currently in breaking state and cannot be acquired until it is broken.")
	errLeaseIsBreakingAndCannotBeChanged  = fail(http.StatusConflict, "LeaseIsBreakingAndCannotBeChanged", "The lease ID matched, but the lease is currently in breaking state and cannot be changed.")
	errLeaseIsBrokenAndCannotBeRenewed    = fail(http.StatusConflict, "LeaseIsBrokenAndCannotBeRenewed", "The lease ID matched, but the lease has been broken explicitly and cannot be renewed.")
	errLeaseNotPresentWithLeaseOperation  = fail(http.StatusConflict, "LeaseNotPresentWithLeaseOperation", "There is currently no lease on the resource.")
	errLeaseIDMismatchWithLeaseOperation  = fail(http.StatusConflict, "LeaseIdMismatchWithLeaseOperation", "The lease ID specified did not match the lease ID for the resource.")

	// Copies.
	errNoPendingCopy          = fail(http.StatusConflict, "NoPendingCopyOperation", "There is currently no pending copy operation.")
	errCannotVerifyCopySource = fail(http.StatusInternalServerError, "CannotVerifyCopySource", "Could not verify the copy source within the specified time.")
	// The incremental copies.
	errIncrementalDestination = fail(http.StatusConflict, "OperationNotAllowedOnIncrementalCopyBlob", "The specified operation is not allowed on an incremental copy blob.")
	errIncrementalMismatch    = fail(http.StatusConflict, "IncrementalCopyBlobMismatch", "The specified source blob is different than the copy source of the existing incremental copy blob.")
	errIncrementalEarlier     = fail(http.StatusConflict, "IncrementalCopyOfEarlierVersionSnapshotNotAllowed", "The specified snapshot is earlier than the last snapshot copied into the incremental copy blob.")
	errIncrementalNoSnapshot  = fail(http.StatusConflict, "IncrementalCopySourceMustBeSnapshot", "The source for incremental copy request must be a snapshot.")
	// errPendingCopy: a write to the destination of a copy that is under way, or a copy from it.
	errPendingCopy = fail(http.StatusConflict, "PendingCopyOperation", "There is currently a pending copy operation.")
	// errCopyIDMismatch: Abort Copy with another id than the pending copy's.
	errCopyIDMismatch = fail(http.StatusConflict, "CopyIdMismatch", "The specified copy ID did not match the copy ID for the pending copy operation.")
	// errInfiniteLease: a copy that takes time, to a blob whose lease may end before it.
	errInfiniteLease         = fail(http.StatusPreconditionFailed, "InfiniteLeaseDurationRequired", "The lease ID matched, but the specified lease must be an infinite-duration lease.")
	errInvalidSourceBlobType = fail(http.StatusConflict, "InvalidSourceBlobType", "The copy source blob type is invalid for this operation.")

	// Tiers and tags.
	errInvalidBlobTier     = fail(http.StatusBadRequest, "InvalidBlobTier", "The specified blob tier is invalid for the blob type.")
	errBlobArchived        = fail(http.StatusConflict, "BlobArchived", "This operation is not permitted on an archived blob.")
	errBlobBeingRehydrated = fail(http.StatusConflict, "BlobBeingRehydrated", "This operation is not permitted because the blob is being rehydrated.")
	errInvalidTag          = fail(http.StatusBadRequest, "InvalidTag", "One or more of the specified tags is invalid.")
	errTagsTooMany         = fail(http.StatusBadRequest, "TagsTooLarge", "The tags specified exceed the maximum permissible limit.")
)

// What using a leased resource answers.
var (
	blobLeaseErrors = leaseErrors{
		missing:    fail(http.StatusPreconditionFailed, "LeaseIdMissing", "There is currently a lease on the blob and no lease ID was specified in the request."),
		mismatch:   fail(http.StatusPreconditionFailed, "LeaseIdMismatchWithBlobOperation", "The lease ID specified did not match the lease ID for the blob."),
		lost:       fail(http.StatusPreconditionFailed, "LeaseLost", "A lease ID was specified, but the lease for the blob has expired."),
		notPresent: fail(http.StatusPreconditionFailed, "LeaseNotPresentWithBlobOperation", "There is currently no lease on the blob."),
	}
	containerLeaseErrors = leaseErrors{
		missing:    fail(http.StatusPreconditionFailed, "LeaseIdMissing", "There is currently a lease on the container and no lease ID was specified in the request."),
		mismatch:   fail(http.StatusPreconditionFailed, "LeaseIdMismatchWithContainerOperation", "The lease ID specified did not match the lease ID for the container."),
		lost:       fail(http.StatusPreconditionFailed, "LeaseLost", "A lease ID was specified, but the lease for the container has expired."),
		notPresent: fail(http.StatusPreconditionFailed, "LeaseNotPresentWithContainerOperation", "There is currently no lease on the container."),
	}
)

// azureErrors are the errors of the packages below the handlers, and what answers them. Codes of the first three, and of disabled
// scopes, are Azure's; the others about scopes are our own, since Azure creates scopes elsewhere and documents the status alone.
var azureErrors = map[error]*wire.Error{
	encryption.ErrKeyMissing: fail(http.StatusConflict, "BlobUsesCustomerSpecifiedEncryption",
		"The blob is encrypted with customer specified encryption, but it was not provided in the request."),
	encryption.ErrKeyUnused: fail(http.StatusConflict, "BlobDoesNotUseCustomerSpecifiedEncryption",
		"The blob is not encrypted with customer specified encryption, but it was provided in the request."),
	encryption.ErrKeyMismatch: fail(http.StatusConflict, "BlobCustomerSpecifiedEncryptionMismatch",
		"The given customer specified encryption does not match the encryption used to encrypt the blob."),
	encryption.ErrScopeNotFound: fail(http.StatusNotFound, "EncryptionScopeNotFound", "The specified encryption scope does not exist."),
	encryption.ErrScopeDisabled: fail(http.StatusForbidden, "EncryptionScopeDisabled", "The specified encryption scope is disabled."),
	encryption.ErrScopeMismatch: fail(http.StatusConflict, "BlobEncryptionScopeMismatch", "The given encryption scope does not match the one used to encrypt the blob."),
}

// azureError returns the Azure error that answers err; err itself if it is one already, or has none and is a defect.
func azureError(err error) error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		switch e := e.(type) {
		case *wire.Error:
			return err
		case *content.BodyError:
			return wire.BodyError(e.Err)
		}
		if !reflect.TypeOf(e).Comparable() {
			continue
		}
		if a, ok := azureErrors[e]; ok {
			return a
		}
	}
	return err
}

func fail(status int, code, message string) *wire.Error {
	return &wire.Error{Status: status, Code: code, Message: message}
}
