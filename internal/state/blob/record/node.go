package record

import "github.com/lazuli-storage/lazuli/internal/state/blob/posix"

// Node holds what a directory or file of a tree has beside what every blob has. It is not changed: a write stores
// another one.
type Node struct {
	// Directory is set for a directory, which is a blob without content.
	Directory bool
	// Owner and Group are object IDs, or [posix.SuperUser].
	Owner, Group string
	Access       posix.Access
	// Context is the encryption context, opaque text of the client.
	Context string
	// Implicit is set for a directory that was created because something in it was.
	Implicit bool
	// Removed is set for what the background removes, with everything below it. The garbage of the database says the
	// same; this says it once more at another place of the file, so that damage of one place brings nothing back.
	Removed bool
	// Transaction is the ID that the client gave to the creation or the last rename, "" for none: a client that repeats
	// one of them learns by it whether it was done.
	Transaction string

	// Parent and name are the entry of the inode. The root directory of a container has no parent, and the container's key
	// as its name.
	Parent Inode
	Name   string
}

// NewRoot is the record of the root directory of a container.
func NewRoot(owner, key string) Blob {
	return Blob{Kind: BlockBlob, Node: &Node{Directory: true, Owner: owner, Group: posix.SuperUser,
		Access: posix.Of(0o750), Name: key}}
}
