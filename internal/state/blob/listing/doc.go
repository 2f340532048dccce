// Package listing reads pages: of the blobs of a container, of the paths of a tree, and of containers.
//
// A request is a value, [Blobs] or [Containers]; a page is read in one transaction of the caller ([Blobs.Page],
// [Containers.Each]). No listing scans: it seeks past records that do not belong to the page, so that the cost of a
// page depends on its items alone. A flat container has its records in the order of the listing (flat.go). A tree is
// walked, and its deleted items are merged into the walk (tree.go, tree_trash.go).
package listing
