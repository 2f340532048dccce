package main

const (
	deletedTwice = "it deletes a container again: Azure accepts that while it removes the first, Lazuli has removed it"
	anyTenant    = "it names a tenant that does not exist: no directory of tenants is there to ask"
	takesHTTP    = "it wants an account that refuses http: the setting is of the management API"
)

var lakeExpected = map[string]string{
	"file.TestAccountEncryptionScopeSAS":                 deletedTwice,
	"lease.TestFilesystemDeleteFilesystemWithoutLeaseId": deletedTwice,
	"lease.TestFilesystemReleaseLease":                   deletedTwice,
	"service.TestGetUserDelegationCredentialError":       anyTenant,
	"service.TestServiceClientWithHTTP":                  takesHTTP,
}

const (
	doneAtOnce = "it ends a copy that goes on: within a server copies are done at once"
	noLogs     = "it wants the container $logs, which Azure's accounts have and Lazuli makes with the first log"
	noPremium  = "it sets tiers of premium accounts"
	lateOfTags = "it searches for tags that it has replaced, which Azure's index still has"
)

var queueExpected = map[string]string{}

var tableExpected = map[string]string{}

var blobExpected = map[string]string{
	"blob.TestBlobAbortCopyInProgress":                 doneAtOnce,
	"lease.TestContainerDeleteContainerWithoutLeaseId": deletedTwice,
	"lease.TestContainerReleaseLease":                  deletedTwice,
	"pageblob.TestBlobSetTierAllTiersOnPageBlob":       noPremium,
	"pageblob.TestBlobTierInferred":                    noPremium,
	"pageblob.TestCreatePageBlobWithTags":              lateOfTags,
	"service.TestFilterBlobsTagsWithServiceSAS":        deletedTwice,
	"service.TestGetUserDelegationCredentialError":     anyTenant,
	"service.TestListContainersSystem":                 noLogs,
	"service.TestServiceClientWithHTTP":                takesHTTP,
}
