package largeentity

import "errors"

var (
	// ErrNotFound means that the entity does not exist.
	ErrNotFound = errors.New("largeentity: the entity does not exist")
	// ErrExists is returned by Insert if the entity exists. Insert has changed nothing.
	ErrExists = errors.New("largeentity: the entity exists already")
	// ErrChanged means that the entity's ETag is not the caller's, or that the entity changed too often for Put, Get or
	// Delete to succeed. The call has changed nothing, unless the response to an earlier request was lost: as with every
	// condition, a caller that must know reads the entity again.
	ErrChanged = errors.New("largeentity: another client changed the entity")
	// ErrTooLarge means that the entity exceeds the limits even with every large property in a blob.
	ErrTooLarge = errors.New("largeentity: the entity is too large")
	// ErrDamaged means that a blob is missing or its content does not match the entity. This package does not cause such a
	// state.
	ErrDamaged = errors.New("largeentity: the entity's blobs are damaged")
)
