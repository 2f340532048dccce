package query

import "fmt"

// Error means that a query is refused before the response begins: with status 400 and Code, unless the code's comment
// gives another status.
type Error struct{ Code, Message string }

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// The codes of Error.
const (
	// CodeExpression: the SQL is invalid, or does not fit the content.
	CodeExpression = "ErrorProcessingQueryExpression"
	// CodeXML: the request's XML is invalid.
	CodeXML = "InvalidXmlDocument"
	// CodeValue: an element of the request has an invalid value.
	CodeValue = "InvalidXmlNodeValue"
	// CodeInput: the content does not have the declared format, so nothing can be read from it.
	CodeInput = "InvalidInput"
)

// refuse returns an Error about the SQL.
func refuse(format string, args ...any) error {
	return &Error{CodeExpression, fmt.Sprintf(format, args...)}
}

// recordError is a record that could not be processed: the stream reports it and the query continues with the next one,
// unless it is fatal.
type recordError struct {
	fatal             bool
	name, description string
	// at is the offset in the content.
	at int64
}

func (e *recordError) Error() string { return e.name + ": " + e.description }

// Errors of evaluating an expression. Name and text of the first are Azure's; the others are this project's, since
// no recording has them.
var (
	errConversion = &recordError{name: "InvalidTypeConversion", description: "Invalid type conversion."}
	errColumn     = &recordError{name: "InvalidColumnOrdinal",
		description: "The record has fewer columns than the query refers to."}
	errDivision = &recordError{name: "DivideByZero", description: "Divide by zero."}
	errOverflow = &recordError{name: "ArithmeticOverflow", description: "Arithmetic overflow."}
)

// errRecordTooLong ends a query.
var errRecordTooLong = &recordError{fatal: true, name: "RecordTooLarge", description: "A record is longer than 4 MiB."}

// errTimedOut ends a query that needs too much work for the content that it has read. Its name is that of Azure's error
// for an operation that does not end in the permitted time.
var errTimedOut = &recordError{fatal: true, name: "OperationTimedOut",
	description: "The query computes more than is allowed for the content that it has read."}

// errTooManyColumns means that a record of delimited text has more than maxCells columns.
var errTooManyColumns = &recordError{name: "TooManyColumns",
	description: "The record has more columns than can be read."}

// parseError ends a query whose content does not have its declared format.
func parseError(at int64, format string, args ...any) *recordError {
	return &recordError{fatal: true, name: "ParseError", description: fmt.Sprintf(format, args...), at: at}
}

// errSyntax is Azure's error for a syntax error.
var errSyntax = refuse("Syntax error!")

// invalidNode returns the error for an element with an invalid value.
func invalidNode(name, value string) error {
	return &Error{CodeValue, "The value " + value + " of " + name + " is invalid."}
}
