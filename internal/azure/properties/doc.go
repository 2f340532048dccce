// Package properties holds what the three services configure alike: the service properties (analytics, CORS, soft
// delete, static website), the CORS rules among them at work, and stored access policies. It reads and writes Azure's
// XML, and checks limits; each service keeps the values in its own state.
//
// https://learn.microsoft.com/rest/api/storageservices/set-blob-service-properties
// https://learn.microsoft.com/rest/api/storageservices/cross-origin-resource-sharing--cors--support-for-the-azure-storage-services
package properties
