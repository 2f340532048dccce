package table

import (
	"errors"
	"strconv"
)

// Errors of tables.
var (
	// ErrTableNotFound means that the account has no table of the name.
	ErrTableNotFound = errors.New("table not found")
	// ErrNotLogged means that the changes of the table are not logged, and that the caller cannot begin that.
	ErrNotLogged = errors.New("the changes of the table are not logged")
	// ErrTableExists means that the account has a table of the name already, in any case.
	ErrTableExists = errors.New("table already exists")
)

// Errors of mutations and reads of an entity.
var (
	// ErrEntityNotFound means that the table has no entity with the keys.
	ErrEntityNotFound = errors.New("entity not found")
	// ErrEntityExists means that an [Insert] found an entity with its keys.
	ErrEntityExists = errors.New("entity already exists")
	// ErrConditionNotMet means that the entity is not in the version that the mutation's condition names.
	ErrConditionNotMet = errors.New("condition not met")
)

// MutationError says which mutation of a transaction failed.
type MutationError struct {
	// Index counts from 0.
	Index int
	// Err is the failure.
	Err error
}

// Error implements error.
func (e *MutationError) Error() string {
	return "mutation " + strconv.Itoa(e.Index) + ": " + e.Err.Error()
}

// Unwrap returns the failure.
func (e *MutationError) Unwrap() error { return e.Err }
