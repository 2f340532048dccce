package tree

import "errors"

var (
	// ErrPathConflict: a path, or a part of it, is a file where a directory is needed, or the other way round.
	ErrPathConflict = errors.New("blob state: the path, or an element of it, is of another kind")
	// ErrPathDepth: more directories than a path may have.
	ErrPathDepth = errors.New("blob state: the path has too many directories")
	// ErrACL: an access control list that an item cannot have.
	ErrACL = errors.New("blob state: invalid access control list")
)
