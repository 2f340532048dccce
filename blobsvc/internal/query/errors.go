package query

import "fmt"

// Error is a query that is refused before an answer has begun: 400 with Code, if that does not say otherwise.
type Error struct{ Code, Message string }

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// The codes of Error.
const (
	// CodeExpression: the SQL is not of the language, or does not fit the content.
	CodeExpression = "ErrorProcessingQueryExpression"
	// CodeXML: the request is not the XML that it should be.
	CodeXML = "InvalidXmlDocument"
	// CodeValue: an element of the request has a value that it cannot have.
	CodeValue = "InvalidXmlNodeValue"
	// CodeInput: the content is not of the declared format at all, so that nothing can be read from it.
	CodeInput = "InvalidInput"
	// CodeNotImplemented: what Azure has and we have not; it is 501.
	CodeNotImplemented = "NotImplemented"
)

// refuse makes an Error about the SQL.
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

// What evaluating an expression can fail with. Names and texts of the first are the service's; the others are ours, since
// no recording has them.
var (
	errConversion = &recordError{name: "InvalidTypeConversion", description: "Invalid type conversion."}
	errColumn     = &recordError{name: "InvalidColumnOrdinal", description: "The record has fewer columns than the query refers to."}
	errDivision   = &recordError{name: "DivideByZero", description: "Divide by zero."}
	errOverflow   = &recordError{name: "ArithmeticOverflow", description: "Arithmetic overflow."}
)

// errRecordTooLong ends a query.
var errRecordTooLong = &recordError{fatal: true, name: "RecordTooLarge", description: "A record is longer than 4 MiB."}

// errTooMuchWork ends a query that computes too much for the size of its content.
var errTooMuchWork = &recordError{fatal: true, name: "TooMuchWork", description: "The query computes more than is allowed for the content that it has read."}

// errTooManyColumns is a record of delimited text with more than maxCells columns.
var errTooManyColumns = &recordError{name: "TooManyColumns", description: "The record has more columns than can be read."}

// parseError ends a query whose content is not of its format.
func parseError(at int64, format string, args ...any) *recordError {
	return &recordError{fatal: true, name: "ParseError", description: fmt.Sprintf(format, args...), at: at}
}
