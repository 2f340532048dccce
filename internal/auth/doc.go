// Package auth decides who sends a request and whether they may: the accounts and their keys, Shared Key and Shared
// Key Lite signatures, and the [Need] that each operation states in its service's operations table.
//
// [Authenticate] answers "who", from the Authorization header; [Identity.Permits] answers "may they", from the
// operation's Need. Signatures are compared in constant time, and no error says more than Azure's does.
//
// https://learn.microsoft.com/rest/api/storageservices/authorize-requests-to-azure-storage
package auth
