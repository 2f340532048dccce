package auth

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Errors for a valid credential that does not permit the request.
// https://learn.microsoft.com/rest/api/storageservices/blob-service-error-codes
var (
	ErrAuthorizationServiceMismatch = &wire.Error{Status: http.StatusForbidden, Code: "AuthorizationServiceMismatch",
		Message: "This request is not authorized to perform this operation using this service."}
	ErrAuthorizationResourceTypeMismatch = &wire.Error{Status: http.StatusForbidden,
		Code:    "AuthorizationResourceTypeMismatch",
		Message: "This request is not authorized to perform this operation using this resource type."}
	ErrAuthorizationProtocolMismatch = &wire.Error{Status: http.StatusForbidden, Code: "AuthorizationProtocolMismatch",
		Message: "This request is not authorized to perform this operation using this protocol."}
	ErrAuthorizationSourceIPMismatch = &wire.Error{Status: http.StatusForbidden, Code: "AuthorizationSourceIPMismatch",
		Message: "This request is not authorized to perform this operation using this source IP."}
	ErrAuthorizationFailure = &wire.Error{Status: http.StatusForbidden, Code: "AuthorizationFailure",
		Message: "This request is not authorized to perform this operation."}
	// ErrAccountRequiresHTTPS: the accounts require secure transfer and the request came over plain HTTP.
	// https://learn.microsoft.com/azure/storage/common/storage-require-secure-transfer
	ErrAccountRequiresHTTPS = &wire.Error{Status: http.StatusBadRequest, Code: "AccountRequiresHttps",
		Message: "The account being accessed does not support http."}
	// ErrInvalidBearerToken is the error for an invalid bearer token from version 2019-12-12; it is sent with
	// a challenge. Earlier versions answer [wire.ErrAuthenticationFailed].
	ErrInvalidBearerToken = &wire.Error{Status: http.StatusUnauthorized, Code: "InvalidAuthenticationInfo",
		Message: "Server failed to authenticate the request. Please refer to the information in the www-authenticate header."}
)

// failed returns [wire.ErrAuthenticationFailed] with Azure's AuthenticationErrorDetail.
func failed(why string) error {
	return wire.ErrAuthenticationFailed.With("AuthenticationErrorDetail", why)
}

// Explain adds to the refusal of an account SAS the resource type that the operation needs, from version 2024-08-04.
// https://learn.microsoft.com/rest/api/storageservices/status-and-error-codes2
func Explain(r *wire.Request, n Need, err error) error {
	if r.Version < wire.V20240804 || !errors.Is(err, ErrAuthorizationResourceTypeMismatch) {
		return err
	}
	return ErrAuthorizationResourceTypeMismatch.With("ExtendedErrorDetail",
		fmt.Sprintf("SignedResourceTypes '%c' is required to perform this operation.", byte(n.On)))
}
