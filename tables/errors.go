package tables

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// Outcomes of requests, for errors.Is.
var (
	// ErrNotFound means that the entity does not exist. Nothing was changed.
	ErrNotFound = errors.New("there is no such entity")
	// ErrExists means that an entity with this key exists already. Nothing was changed.
	ErrExists = errors.New("the entity exists already")
	// ErrChanged means that the entity no longer has the ETag that the value carries. Nothing was changed.
	ErrChanged = errors.New("the entity was changed since it was read")
	// ErrTableNotFound means that the table does not exist. Nothing was changed. Reading one entity may return ErrNotFound
	// instead.
	ErrTableNotFound = errors.New("there is no such table")
)

// Error is a failed request.
type Error struct {
	// Op is the operation in words, "insert".
	Op    string
	Table string
	// Key is the entity's; the zero Key for operations on many.
	Key Key
	Err error
}

// Error returns a single line: an SDK error is shortened to its status and code.
func (e *Error) Error() string {
	what := e.Op + " " + e.Table
	if e.Key != (Key{}) {
		what += fmt.Sprintf(" (%q, %q)", e.Key.PartitionKey, e.Key.RowKey)
	}
	return "tables: " + what + ": " + shortText(e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is matches the package's outcomes.
func (e *Error) Is(target error) bool { return is(e.Err, target) }

// The service's error codes that this package distinguishes.
// https://learn.microsoft.com/rest/api/storageservices/table-service-error-codes
const (
	codeTableNotFound = "TableNotFound"
	codeTableExists   = "TableAlreadyExists"
	codeEntityExists  = "EntityAlreadyExists"
)

func is(err, target error) bool {
	var r *azcore.ResponseError
	if !errors.As(err, &r) {
		return false
	}
	switch target {
	case ErrNotFound:
		return r.StatusCode == http.StatusNotFound && r.ErrorCode != codeTableNotFound
	case ErrTableNotFound:
		return r.StatusCode == http.StatusNotFound && r.ErrorCode == codeTableNotFound
	case ErrExists:
		return r.StatusCode == http.StatusConflict && r.ErrorCode == codeEntityExists
	case ErrChanged:
		return r.StatusCode == http.StatusPreconditionFailed
	}
	return false
}

func shortText(err error) string {
	var r *azcore.ResponseError
	if !errors.As(err, &r) {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", r.StatusCode, r.ErrorCode)
}

// refused reports whether the service answered, and did nothing.
func refused(err error) bool {
	var r *azcore.ResponseError
	var tx *TransactionError
	return errors.As(err, &tx) || errors.As(err, &r) && r.StatusCode >= 400 && r.StatusCode < 500
}

// readAll returns the body of an answer, which the SDK has read already.
func readAll(r *http.Response) ([]byte, error) { return runtime.Payload(r) }
