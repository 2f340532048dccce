package wire

import (
	"net/http"
	"strings"
)

// The errors that all services share. Codes, statuses and texts are Azure's.
// https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes
var (
	// ErrInvalidHeaderValue: a header's value is not of its form, or outside its limits. Azure names the header and
	// the value in the document: use [InvalidHeader].
	ErrInvalidHeaderValue = &Error{Status: http.StatusBadRequest, Code: "InvalidHeaderValue",
		Message: "The value for one of the HTTP headers is not in the correct format."}
	// ErrMissingRequiredHeader: use [MissingHeader].
	ErrMissingRequiredHeader = &Error{Status: http.StatusBadRequest, Code: "MissingRequiredHeader",
		Message: "An HTTP header that's mandatory for this request is not specified."}
	// ErrUnsupportedHeader: the header is not allowed with this operation.
	ErrUnsupportedHeader = &Error{Status: http.StatusBadRequest, Code: "UnsupportedHeader",
		Message: "One of the HTTP headers specified in the request is not supported."}
	// ErrInvalidQueryParameterValue: use [InvalidQuery].
	ErrInvalidQueryParameterValue = &Error{Status: http.StatusBadRequest, Code: "InvalidQueryParameterValue",
		Message: "Value for one of the query parameters specified in the request URI is invalid."}
	// ErrOutOfRangeQueryParameterValue: use [OutOfRangeQuery].
	ErrOutOfRangeQueryParameterValue = &Error{Status: http.StatusBadRequest, Code: "OutOfRangeQueryParameterValue",
		Message: "One of the query parameters specified in the request URI is outside the permissible range."}
	// ErrMissingRequiredQueryParameter: use [MissingQuery].
	ErrMissingRequiredQueryParameter = &Error{Status: http.StatusBadRequest, Code: "MissingRequiredQueryParameter",
		Message: "A query parameter that's mandatory for this request is not specified."}
	// ErrInvalidURI: the path or the query cannot be parsed.
	ErrInvalidURI = &Error{Status: http.StatusBadRequest, Code: "InvalidUri",
		Message: "The requested URI does not represent any resource on the server."}
	// ErrInvalidResourceName: a container, queue or table name breaks the naming rules. The misspelling is Azure's.
	ErrInvalidResourceName = &Error{Status: http.StatusBadRequest, Code: "InvalidResourceName",
		Message: "The specifed resource name contains invalid characters."}
	// ErrOutOfRangeInput: a name or a value is too short or too long.
	ErrOutOfRangeInput = &Error{Status: http.StatusBadRequest, Code: "OutOfRangeInput",
		Message: "One of the request inputs is out of range."}
	// ErrInvalidInput: a value in the request body is wrong.
	ErrInvalidInput = &Error{Status: http.StatusBadRequest, Code: "InvalidInput",
		Message: "One of the request inputs is not valid."}
	// ErrInvalidXMLDocument: the body is not well-formed XML or not of the operation's schema.
	ErrInvalidXMLDocument = &Error{Status: http.StatusBadRequest, Code: "InvalidXmlDocument",
		Message: "XML specified is not syntactically valid."}
	// ErrInvalidXMLNodeValue: an XML element holds a value outside its range; details XmlNodeName and XmlNodeValue.
	ErrInvalidXMLNodeValue = &Error{Status: http.StatusBadRequest, Code: "InvalidXmlNodeValue",
		Message: "The value for one of the XML nodes is not in the correct format."}
	// ErrInvalidMetadata: a metadata name is not a C# identifier, or a value has illegal characters.
	ErrInvalidMetadata = &Error{Status: http.StatusBadRequest, Code: "InvalidMetadata",
		Message: "The metadata specified is invalid. It has characters that are not permitted."}
	// ErrEmptyMetadataKey: a metadata header without a name.
	ErrEmptyMetadataKey = &Error{Status: http.StatusBadRequest, Code: "EmptyMetadataKey",
		Message: "The key for one of the metadata key-value pairs is empty."}
	// ErrHeadersTooLarge: the headers are over 64 KiB together, or there are over 1000 x-ms-* headers. The status is
	// Azure's; its answer has no code.
	ErrHeadersTooLarge = &Error{Status: http.StatusBadRequest, Code: "OutOfRangeInput",
		Message: "The size of the request headers is too long."}
	// ErrMetadataTooLarge: names and values are over 8 KiB together.
	ErrMetadataTooLarge = &Error{Status: http.StatusBadRequest, Code: "MetadataTooLarge",
		Message: "The size of the specified metadata exceeds the maximum size permitted."}
	// ErrMD5Mismatch: Content-MD5 differs from what was received.
	ErrMD5Mismatch = &Error{Status: http.StatusBadRequest, Code: "Md5Mismatch",
		Message: "The MD5 value specified in the request did not match with the MD5 value calculated by the server."}
	// ErrInvalidMD5: Content-MD5 is not the base64 of 16 bytes.
	ErrInvalidMD5 = &Error{Status: http.StatusBadRequest, Code: "InvalidMd5",
		Message: "The MD5 value specified in the request is invalid. MD5 value must be 128 bits and base64 encoded."}
	// ErrCRC64Mismatch: x-ms-content-crc64 differs from what was received.
	ErrCRC64Mismatch = &Error{Status: http.StatusBadRequest, Code: "Crc64Mismatch",
		Message: "The CRC64 value specified in the request did not match with the CRC64 value calculated by the server."}
	// ErrMissingContentLength: a body without a length.
	ErrMissingContentLength = &Error{Status: http.StatusLengthRequired, Code: "MissingContentLengthHeader",
		Message: "The Content-Length header was not specified."}
	// ErrLengthRequired: a PUT or POST with neither a length nor chunks. The part of Azure before its services refuses it
	// with a page in HTML, whatever the operation: https://github.com/Azure/azure-rest-api-specs/issues/39255,
	// https://github.com/Azure/Azurite/issues/2618. The page is in https://github.com/jclouds/legacy-jclouds/issues/1420.
	ErrLengthRequired = &Error{Status: http.StatusLengthRequired, Bare: true,
		Message: "HTTP Error 411. The request must be chunked or have a content length."}
	// ErrRequestBodyTooLarge: the body is over the operation's limit.
	ErrRequestBodyTooLarge = &Error{Status: http.StatusRequestEntityTooLarge, Code: "RequestBodyTooLarge",
		Message: "The request body is too large and exceeds the maximum permissible limit."}
	// ErrIncompleteBody: the body ended before its Content-Length.
	ErrIncompleteBody = &Error{Status: http.StatusBadRequest, Code: "IncompleteBody",
		Message: "The size of the request body does not match the Content-Length header."}
	// ErrUnsupportedHTTPVerb: the resource does not support the method.
	ErrUnsupportedHTTPVerb = &Error{Status: http.StatusMethodNotAllowed, Code: "UnsupportedHttpVerb",
		Message: "The resource doesn't support specified Http Verb."}
	// ErrInvalidHTTPVerb: no resource supports the method.
	ErrInvalidHTTPVerb = &Error{Status: http.StatusBadRequest, Code: "InvalidHttpVerb",
		Message: "The HTTP verb specified is invalid - it is not recognized by the server."}
	// ErrConditionNotMet: a conditional header does not hold, for a write or for If-Match.
	ErrConditionNotMet = &Error{Status: http.StatusPreconditionFailed, Code: "ConditionNotMet",
		Message: "The condition specified using HTTP conditional header(s) is not met."}
	// ErrNotModified: a conditional header does not hold, for a read. It has no body.
	ErrNotModified = &Error{Status: http.StatusNotModified, Code: "ConditionNotMet",
		Message: "The condition specified using HTTP conditional header(s) is not met."}
	// ErrMultipleConditionHeadersNotSupported: more conditional headers than the operation allows.
	ErrMultipleConditionHeadersNotSupported = &Error{Status: http.StatusBadRequest,
		Code: "MultipleConditionHeadersNotSupported", Message: "Multiple condition headers are not supported."}
	// ErrResourceNotFound: the resource does not exist. It is also the answer to anonymous callers for private resources.
	ErrResourceNotFound = &Error{Status: http.StatusNotFound, Code: "ResourceNotFound",
		Message: "The specified resource does not exist."}
	// ErrAuthenticationFailed: no valid credential. AuthenticationErrorDetail may say why.
	ErrAuthenticationFailed = &Error{Status: http.StatusForbidden, Code: "AuthenticationFailed",
		Message: "Server failed to authenticate the request. Make sure the value of Authorization header is formed " +
			"correctly including the signature."}
	// ErrInvalidAuthenticationInfo: the Authorization header cannot be parsed.
	ErrInvalidAuthenticationInfo = &Error{Status: http.StatusBadRequest, Code: "InvalidAuthenticationInfo",
		Message: "Authentication information is not given in the correct format. Check the value of Authorization header."}
	// ErrNoAuthenticationInformation: the operation needs a credential and the request has none, from version 2019-12-12.
	ErrNoAuthenticationInformation = &Error{Status: http.StatusUnauthorized, Code: "NoAuthenticationInformation",
		Message: "Server failed to authenticate the request. Please refer to the information in the www-authenticate header."}
	// ErrInsufficientAccountPermissions: the account is read-only here, as on the secondary endpoint.
	ErrInsufficientAccountPermissions = &Error{Status: http.StatusForbidden, Code: "InsufficientAccountPermissions",
		Message: "The account being accessed does not have sufficient permissions to execute this operation."}
	// ErrWriteToSecondary: the endpoint is that of a secondary. Documented as one of three messages of the code.
	// https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes
	ErrWriteToSecondary = ErrInsufficientAccountPermissions.WithMessage(
		"Write operations to the secondary location are not allowed.")
	// ErrAuthorizationPermissionMismatch: the credential is valid but does not permit the operation.
	ErrAuthorizationPermissionMismatch = &Error{Status: http.StatusForbidden, Code: "AuthorizationPermissionMismatch",
		Message: "This request is not authorized to perform this operation using this permission."}
	// ErrNotImplemented: Azure has the operation or setting, Lazuli does not.
	ErrNotImplemented = &Error{Status: http.StatusNotImplemented, Code: "NotImplemented",
		Message: "The requested operation is not implemented on the specified resource."}
	// ErrInternal: a defect, or a failure of the disk. The log has the cause and the request id.
	ErrInternal = &Error{Status: http.StatusInternalServerError, Code: "InternalError",
		Message: "Server encountered an internal error. Please try again after some time."}
	// ErrOperationTimedOut: the operation did not end within the permitted time.
	ErrOperationTimedOut = &Error{Status: http.StatusInternalServerError, Code: "OperationTimedOut",
		Message: "Operation could not be completed within the specified time."}
	// ErrInsufficientStorage: the disk of the data folder is full. Azure has no such state; the status is one that the
	// SDKs do not retry, because room does not come by itself.
	ErrInsufficientStorage = &Error{Status: http.StatusInsufficientStorage, Code: "InsufficientStorage",
		Message: "The disk of the server's data folder is full. Reads and deletes are served; delete something, or give " +
			"the disk room."}
	// ErrDisk: the disk refuses writes, or has no room even for what other nodes of the cluster write. What logs it says
	// which. Clients retry.
	ErrDisk = ErrServerBusy.WithMessage("The disk of this server is full or refuses writes: please retry your request " +
		"later, or ask another node of its cluster.")
	// ErrFenced: the server does not know whether another one has taken its place. Clients retry.
	ErrFenced = ErrServerBusy.WithMessage("This server does not accept writes at the moment: it cannot confirm that it " +
		"is still the one that may. Please retry your request.")
	// ErrServerBusy: too many requests at once, or the server is stopping. Clients retry.
	ErrServerBusy = &Error{Status: http.StatusServiceUnavailable, Code: "ServerBusy",
		Message: "The server is currently unable to receive requests. Please retry your request."}
)

// InvalidHeader is [ErrInvalidHeaderValue] for one header.
func InvalidHeader(name, value string) *Error {
	return ErrInvalidHeaderValue.With("HeaderName", documented(name)).With("HeaderValue", value)
}

// MissingHeader is [ErrMissingRequiredHeader] for one header.
func MissingHeader(name string) *Error {
	return ErrMissingRequiredHeader.With("HeaderName", documented(name))
}

// documented is the name of a header as the reference writes it: in lower case if it is one of Azure's own.
func documented(name string) string {
	if strings.HasPrefix(name, "X-Ms-") {
		return strings.ToLower(name)
	}
	return name
}

// InvalidQuery is [ErrInvalidQueryParameterValue] for one parameter.
func InvalidQuery(name, value, reason string) *Error {
	return ErrInvalidQueryParameterValue.With("QueryParameterName", name).With("QueryParameterValue", value).
		With("Reason", reason)
}

// OutOfRangeQuery is [ErrOutOfRangeQueryParameterValue] for one parameter and its inclusive limits.
func OutOfRangeQuery(name, value, least, most string) *Error {
	return ErrOutOfRangeQueryParameterValue.With("QueryParameterName", name).With("QueryParameterValue", value).
		With("MinimumAllowed", least).With("MaximumAllowed", most)
}

// MissingQuery is [ErrMissingRequiredQueryParameter] for one parameter.
func MissingQuery(name string) *Error {
	return ErrMissingRequiredQueryParameter.With("QueryParameterName", name)
}
