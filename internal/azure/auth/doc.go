// Package auth decides who sends a request and whether they may: the accounts and their keys, and the [Need] that
// each operation states in its service's operations table.
//
// [Authenticator.Authenticate] answers "who", from the Authorization header or the signature in the URL;
// [Identity.Check] answers "may they", from the operation's Need. There are five credentials:
//
//   - Shared Key and Shared Key Lite (sharedkey.go, forms.go): the account's own key.
//   - Account SAS and service SAS (token.go, sas.go), the latter with stored access policies.
//   - Bearer tokens (oauth.go, jwks.go), whose rights come from role assignments (roles.go).
//   - User delegation SAS (delegation.go): signed with a key that a bearer token's owner got.
//   - None: anonymous.
//
// Signatures are compared in constant time, no credential is printed by any format verb, and no error says more than
// Azure's does.
//
// https://learn.microsoft.com/rest/api/storageservices/authorize-requests-to-azure-storage
package auth
