package main

const (
	deletedTwice = "it deletes a filesystem again: Azure accepts that while it removes the first, Lazuli has removed it"
	anyTenant    = "it names a tenant that does not exist: no directory of tenants is there to ask"
	takesHTTP    = "it wants an account that refuses http: the setting is of the management API"
)

// expectedToFail are tests that cannot pass, with the reason.
var expectedToFail = map[string]string{
	"file.TestAccountEncryptionScopeSAS":                 deletedTwice,
	"lease.TestFilesystemDeleteFilesystemWithoutLeaseId": deletedTwice,
	"lease.TestFilesystemReleaseLease":                   deletedTwice,
	"service.TestGetUserDelegationCredentialError":       anyTenant,
	"service.TestServiceClientWithHTTP":                  takesHTTP,
}
