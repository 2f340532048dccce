package blobsvc

import "github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"

// Headers that the operations table, the checks of an address and the operations themselves name.
const (
	blobTypeHeader   = "X-Ms-Blob-Type"
	requiresSync     = "X-Ms-Requires-Sync"
	copySourceHeader = endpoint.CopySourceHeader
)

// x-ms-copy-source-tag-option, and its value with which a copy takes over the source's tags.
const (
	sourceTagOption = "X-Ms-Copy-Source-Tag-Option"
	copyTagOption   = "COPY"
)
