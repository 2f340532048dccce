package largeentity

import "errors"

var (
	// ErrNotFound: there is no such entity.
	ErrNotFound = errors.New("largeentity: there is no such entity")
	// ErrExists: Insert found an entity. Nothing was changed.
	ErrExists = errors.New("largeentity: the entity exists already")
	// ErrChanged: the entity is not, or no longer, the one that the caller's ETag names, or it changed too often for Put, Get or
	// Delete to get their turn. Nothing was changed, unless an earlier answer was lost on the way: as with every
	// condition, a caller that must know reads again.
	ErrChanged = errors.New("largeentity: the entity was changed by somebody else")
	// ErrTooLarge: what must stay in the entity does not fit it, even with every big property in a blob.
	ErrTooLarge = errors.New("largeentity: the entity is too large")
	// ErrDamaged: a blob is missing, or does not have the content that the entity says. Nothing that this package does leads there.
	ErrDamaged = errors.New("largeentity: the entity's blobs are damaged")
)
