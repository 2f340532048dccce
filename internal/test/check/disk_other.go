//go:build !linux

package check

// FilesInMemory leaves temporary files where they are: on Linux it puts them in memory. It calls [CollectRarely].
func FilesInMemory() { CollectRarely() }
