// Package connstr reads Azure Storage connection strings and builds the official SDK's clients from them.
//
// It exists because the SDK's own parsers know only the full form: they refuse UseDevelopmentStorage=true, which is
// what every emulator user writes, and each of the three modules has a parser of its own. Here one [Settings] value
// serves all three services.
//
// The forms understood are those of
// https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string:
//
//	UseDevelopmentStorage=true
//	UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://host
//	DefaultEndpointsProtocol=https;AccountName=a;AccountKey=k[;EndpointSuffix=core.windows.net]
//	AccountName=a;AccountKey=k;BlobEndpoint=...;QueueEndpoint=...;TableEndpoint=...
//	BlobEndpoint=...;QueueEndpoint=...;TableEndpoint=...;SharedAccessSignature=sv=...
//	AccountName=a;SharedAccessSignature=sv=...
//
// Keys and signatures are held as [Secret], which every way of printing shows as **redacted**.
package connstr
