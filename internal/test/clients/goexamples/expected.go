package main

const (
	byDesign   = "it shows errors, or ends with one at Azure as well"
	noTenant   = "it asks Entra for a token, at an address that is fixed"
	otherName  = "it has the name of a blob or account that only its author has"
	noRole     = "no role for data permits it, as at Azure"
	wantsSAS   = "it wants a signature in a variable, but uses it as a whole address"
	withoutKey = "it signs without a key"
	otherSetup = "it wants an account with deleted containers or a hierarchical namespace"
)

// expectedToFail are examples that cannot pass, with the reason.
var expectedToFail = map[string]string{
	"azblob.ExampleResponseError":                                     byDesign,
	"azblob.Example_blob_AccessConditions":                            byDesign,
	"azblob/pageblob.Example_pageblob_Client":                         byDesign, // it writes ten pages into a blob of four
	"azblob.Example_client_DeleteBlob":                                otherName,
	"azblob.Example_client_DownloadFile":                              otherName,
	"azblob.Example_client_DownloadStream":                            otherName,
	"azblob/appendblob.Example_appendblob_Seal":                       otherName,
	"azblob/appendblob.Example_appendblob_SetExpiry":                  otherSetup,
	"azblob/blockblob.Example_blockblob_SetExpiry":                    otherSetup,
	"azblob/blockblob.Example_blockblob_uploadLogs":                   otherName,
	"azblob/blob.Example_blob_Client_StartCopyFromURL":                otherName, // a source in the Internet
	"azblob/container.Example_container_BatchSetTier":                 noTenant,
	"azblob/service.Example_service_BatchSetTier":                     noTenant,
	"azblob/sas.Example_userDelegationSAS":                            noTenant,
	"azblob/container.Example_container_ClientGetSASURL":              withoutKey,
	"azblob/container.Example_container_NewClientWithNoCredential":    wantsSAS,
	"azblob/service.Example_service_Client_NewClientWithNoCredential": wantsSAS,
	"aztables.ExampleNewServiceClientWithNoCredential":                wantsSAS,
	"azblob/service.Example_service_Client_GetProperties":             noRole,
	"azblob/service.Example_service_Client_SetProperties":             noRole,
	"azblob/service.Example_service_Client_RestoreContainer":          otherSetup,
	"azblob/sas.Example_serviceSAS": "its signature permits https alone, which ends " +
		"at the proxy",
	"azqueue.Example_client_DeleteQueue":               otherName,
	"aztables.ExampleServiceClient_NewListTablesPager": "its address has no https://",
	"aztables.ExampleServiceClient_SetProperties":      "its address has no https://",
}
