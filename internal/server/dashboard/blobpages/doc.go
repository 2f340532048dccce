// Package blobpages has the pages of containers, blobs and directories of Data Lake Storage.
package blobpages
