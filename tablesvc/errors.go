package tablesvc

import (
	"errors"
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/table"
	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// The errors of the Table service, in addition to those of package wire and of the data model, package entity.
// https://learn.microsoft.com/rest/api/storageservices/table-service-error-codes
var (
	// errTableNotFound: an operation names a table that does not exist. Reading one entity, Delete Table and Query Tables
	// answer errNotFound. https://github.com/Azure/azure-sdk-for-net/issues/46430
	errTableNotFound = &wire.Error{Status: http.StatusNotFound, Code: "TableNotFound",
		Message: "The table specified does not exist."}
	// errTableAlreadyExists: Create Table.
	errTableAlreadyExists = &wire.Error{Status: http.StatusConflict, Code: "TableAlreadyExists",
		Message: "The table specified already exists."}
	// errEntityAlreadyExists: Insert Entity.
	errEntityAlreadyExists = &wire.Error{Status: http.StatusConflict, Code: "EntityAlreadyExists",
		Message: "The specified entity already exists."}
	// errNotFound: an entity does not exist, or a table in Delete Table and Query Tables.
	errNotFound = wire.ErrResourceNotFound
	// errUpdateCondition: If-Match does not hold.
	errUpdateCondition = &wire.Error{Status: http.StatusPreconditionFailed, Code: "UpdateConditionNotSatisfied",
		Message: "The update condition specified in the request was not satisfied."}
	// errTableName: Create Table with a name outside the rules.
	errTableName = wire.ErrInvalidResourceName
	// errTableNameLength: Create Table with a name of under 3 or over 63 characters.
	errTableNameLength = wire.ErrOutOfRangeInput.WithMessage(
		"The specified resource name length is not within the permissible limits.")
	// errInvalidInput: a request that cannot be parsed.
	errInvalidInput = badRequest(entity.ErrInvalidInput)
	// errMethodNotAllowed: a part of a change set for the service itself.
	errMethodNotAllowed = &wire.Error{Status: http.StatusMethodNotAllowed, Code: "MethodNotAllowed",
		Message: "The requested method is not allowed on the specified resource."}
	// errSyntax: a path that does not name a resource of the Table service.
	// https://github.com/Azure/azure-storage-net/issues/386
	errSyntax = errInvalidInput.WithMessage("Bad Request - Error in query syntax.")

	// errToken: text that is not a continuation token.
	errToken = errInvalidInput.WithMessage("The continuation token is not valid.")

	// errIfNoneMatch: the header with a change of an entity.
	errIfNoneMatch = errInvalidInput.WithMessage(
		"If-None-Match HTTP header cannot be specified for PUT, MERGE or DELETE operations.")

	// errJSONFormat: JSON before version 2013-08-15, or verbose JSON.
	errJSONFormat = unsupported("JsonFormatNotSupported", "JSON format is not supported.")
	// errVerboseJSON: odata=verbose.
	errVerboseJSON = unsupported("JsonVerboseFormatNotSupported", "Verbose JSON format is not supported.")
	// errAtomFormat: Atom from version 2015-12-11 on.
	errAtomFormat = unsupported("AtomFormatNotSupported", "Atom format is not supported.")
	// errMediaType: another format.
	errMediaType = unsupported("MediaTypeNotSupported", "None of the provided media types are supported.")

	// errMethodOverride: X-HTTP-Method with another value than MERGE, PUT, PATCH or DELETE.
	errMethodOverride = &wire.Error{Status: http.StatusBadRequest, Code: "XMethodIncorrectValue",
		Message: "The specified X-HTTP-Method is invalid."}
	// errMethodOverrideCount: X-HTTP-Method twice.
	errMethodOverrideCount = &wire.Error{Status: http.StatusBadRequest, Code: "XMethodIncorrectCount",
		Message: "More than one X-HTTP-Method is specified."}
	// errMethodOverrideVerb: X-HTTP-Method with another verb than POST.
	errMethodOverrideVerb = &wire.Error{Status: http.StatusBadRequest, Code: "XMethodNotUsingPost",
		Message: "The request uses X-HTTP-Method with an HTTP verb other than POST."}

	// errPartitions: an entity group transaction over more than one partition.
	errPartitions = &wire.Error{Status: http.StatusBadRequest, Code: "CommandsInBatchActOnDifferentPartitions",
		Message: "All commands in a batch must operate on same entity group."}
	// errDuplicateRow: an entity twice in one transaction.
	errDuplicateRow = &wire.Error{Status: http.StatusBadRequest, Code: "InvalidDuplicateRow",
		Message: "The batch request contains multiple changes with same row key. An entity can appear only once in a " +
			"batch request."}
	// errNoMajority and errUnknownOutcome: a node of a cluster without a majority, which clients try again. The latter
	// also: a server that lost its archive while it wrote.
	errNoMajority = wire.ErrServerBusy.WithMessage(
		"This node of the cluster cannot reach a majority of the nodes. Please retry your request.")
	errUnknownOutcome = wire.ErrOperationTimedOut.WithMessage(
		"The write could not be confirmed. The operation may or may not have been completed.")

	// errBatchSize: over 100 changes.
	errBatchSize = errInvalidInput.WithMessage(
		"The batch request operation exceeds the maximum 100 changes per change set.")
)

func unsupported(code, message string) *wire.Error {
	return &wire.Error{Status: http.StatusUnsupportedMediaType, Code: code, Message: message}
}

// badRequest returns an error of the data model as the client gets it.
func badRequest(e *entity.Error) *wire.Error {
	return &wire.Error{Status: http.StatusBadRequest, Code: e.Code, Message: e.Message}
}

// azureErrors are the errors of the packages below the handlers, and the errors that answer them.
var azureErrors = wire.Answers{
	state.ErrTableNotFound:   errTableNotFound,
	state.ErrTableExists:     errTableAlreadyExists,
	state.ErrEntityNotFound:  errNotFound,
	state.ErrEntityExists:    errEntityAlreadyExists,
	state.ErrConditionNotMet: errUpdateCondition,
	store.ErrUnavailable:     errNoMajority,
	store.ErrNodeDisk:        wire.ErrDisk,
	store.ErrUnknown:         errUnknownOutcome,
	store.ErrReadOnly:        wire.ErrWriteToSecondary,
	store.ErrFenced:          wire.ErrFenced,
}

// azureError maps the errors of the state and of the data model to those of the protocol. It is the front-end's Errors.
func azureError(err error) error {
	var invalid *entity.Error
	if errors.As(err, &invalid) {
		return badRequest(invalid)
	}
	return azureErrors.Of(err)
}

// hideTable returns errNotFound for a missing table, for operations that do not distinguish it from a missing entity.
func hideTable(err error) error {
	if errors.Is(err, state.ErrTableNotFound) {
		return errNotFound
	}
	return err
}
