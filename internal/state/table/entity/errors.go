package entity

// Error is a value or a name that the data model does not allow. The service answers it with status 400.
type Error struct {
	// Code is Azure's error code, Message its text.
	Code, Message string
}

// Error implements error.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// The errors of the data model. Codes and texts are Azure's.
// https://learn.microsoft.com/rest/api/storageservices/table-service-error-codes
var (
	// ErrInvalidInput: a body that does not parse, or a value that is not of its declared type.
	ErrInvalidInput = bad("InvalidInput", "An error occurred while processing this request.")
	// ErrPropertiesNeedValue: an insert without PartitionKey or RowKey, or with null for one of them.
	ErrPropertiesNeedValue = bad("PropertiesNeedValue", "The values are not specified for all properties in the entity.")
	// ErrDuplicateProperties: a body has a property twice.
	ErrDuplicateProperties = bad("DuplicatePropertiesSpecified", "A property is specified more than one time.")
	// ErrPrimaryKeyType: PartitionKey or RowKey is not a string.
	ErrPrimaryKeyType = bad("PrimaryKeyPropertyIsInvalidType", "The primary key property is of an invalid type.")
	// ErrOutOfRange: a key holds a character that keys may not have, or a DateTime is outside of 1601 to 9999.
	ErrOutOfRange = bad("OutOfRangeInput", "One of the request inputs is out of range.")
	// ErrKeyTooLarge: PartitionKey or RowKey has over 512 characters.
	ErrKeyTooLarge = bad("KeyValueTooLarge", "The specified key value is larger than the maximum size permitted.")
	// ErrPropertyName: a property name is not a C# identifier.
	ErrPropertyName = bad("PropertyNameInvalid", "The property name is invalid.")
	// ErrPropertyNameTooLong: a property name has over 255 characters.
	ErrPropertyNameTooLong = bad("PropertyNameTooLong", "The property name exceeds the maximum allowed length (255).")
	// ErrPropertyTooLarge: a string or binary value is over 64 KiB.
	ErrPropertyTooLarge = bad("PropertyValueTooLarge", "The property value exceeds the maximum allowed size (64KB). "+
		"If the property value is a string, it is UTF-16 encoded and the maximum number of characters should be 32K or less.")
	// ErrTooManyProperties: over 252 properties beside the three of the system.
	ErrTooManyProperties = bad("TooManyProperties", "The entity contains more properties than allowed. "+
		"Each entity can include up to 252 properties to store data. Each entity also has 3 system properties.")
	// ErrEntityTooLarge: over 1 MiB by Azure's formula.
	ErrEntityTooLarge = bad("EntityTooLarge", "The entity is larger than the maximum allowed size (1MB).")
)

func bad(code, message string) *Error { return &Error{Code: code, Message: message} }
