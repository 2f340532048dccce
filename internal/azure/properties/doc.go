// Package properties holds the configuration that the three services share: service properties (analytics, CORS, soft
// delete, static website) with the operations on them, and stored access policies. It parses and writes Azure's XML and
// checks limits. [Registry] keeps service properties in memory; each service stores the values in its own state.
//
// https://learn.microsoft.com/rest/api/storageservices/set-blob-service-properties
// https://learn.microsoft.com/rest/api/storageservices/cross-origin-resource-sharing--cors--support-for-the-azure-storage-services
package properties
