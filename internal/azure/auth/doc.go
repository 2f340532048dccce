// Package auth authenticates and authorizes requests: it has the accounts and their keys, and the [Need] that
// each operation states in its service's operations table.
//
// [Authenticator.Authenticate] identifies the caller, by the Authorization header or the signature in the URL;
// [Identity.Check] checks the operation's Need. There are five kinds of credentials:
//
//   - Shared Key and Shared Key Lite (sharedkey.go, forms.go): the account's own key.
//   - Account SAS and service SAS (token.go, sas.go), the latter with stored access policies.
//   - Bearer tokens (oauth.go, jwks.go), whose rights are given by role assignments (roles.go).
//   - User delegation SAS (delegation.go): signed with a key that was issued for a bearer token.
//   - None: anonymous.
//
// Signatures are compared in constant time, format verbs do not print credentials, and errors contain no more than
// Azure's does.
//
// https://learn.microsoft.com/rest/api/storageservices/authorize-requests-to-azure-storage
package auth
