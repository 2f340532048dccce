// Package listing reads pages: of the blobs of a container, of the paths of a tree, and of containers.
//
// A request is a value, [Blobs] or [Containers]; a page is read in one transaction of the caller ([Blobs.Page],
// [Containers.Each]). No listing scans: what is not wanted is passed by seeking, so that a page costs what is in it. A
// flat container has its records in the order of the listing (flat.go). A tree is walked, and what was deleted in it is
// merged into the walk (tree.go, tree_trash.go).
package listing
