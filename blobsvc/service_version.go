package blobsvc

import "github.com/lazuli-storage/lazuli/internal/azure/wire"

// Service versions at which the Blob service's behaviour changes. Package wire has the versions that affect several
// services. https://learn.microsoft.com/rest/api/storageservices/previous-azure-storage-service-versions
const (
	v20090919 wire.Version = 20090919 // public containers
	v20110818 wire.Version = 20110818 // quoted entity tags, Accept-Ranges
	v20120212 wire.Version = 20120212 // states of leases
	v20160531 wire.Version = 20160531 // blocks of 100 MiB, blobs of 256 MiB in one request
	v20171109 wire.Version = 20171109 // the creation time of blobs
	v20190202 wire.Version = 20190202 // CRC64, encryption scopes of containers
	v20190707 wire.Version = 20190707 // hierarchical namespaces
	v20191010 wire.Version = 20191010 // IDs of versions (recorded; the reference says 2019-12-12)
	v20200210 wire.Version = 20200210 // creation times of paths
	v20200612 wire.Version = 20200612 // owners of paths on the Blob endpoint
	v20201002 wire.Version = 20201002 // immutable storage with versioning
	v20210212 wire.Version = 20210212 // encoded names in listings
	v20201206 wire.Version = 20201206 // encryption scopes of paths
	v20210410 wire.Version = 20210410 // hashes of appended content
	v20211202 wire.Version = 20211202 // Copy Blob From URL says that its content is encrypted
	v20221102 wire.Version = 20221102 // append blocks of 100 MiB
	v20230803 wire.Version = 20230803 // access control lists of paths
	v20231103 wire.Version = 20231103 // the codes of conditions of Put Blob From URL
	v20240804 wire.Version = 20240804 // the code of conditions on the destination of Copy Blob
	v20260606 wire.Version = 20260606 // the tier Smart, permission to create for Put Block
	v20261006 wire.Version = 20261006 // tiers in Get Blob, CRC64 beside MD5, listings in the Arrow format
)
