package state

import (
	"bytes"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// IsSystem reports whether the system writes a container; such containers are flat in all accounts.
func IsSystem(container string) bool {
	return strings.HasPrefix(container, "$") && container != RootContainer
}

// checkNamespace fails with [ErrNamespace] if the account has containers of the other kind: an account is hierarchical
// from its first container on, or never.
func checkNamespace(tx *store.Tx, account, container string, hierarchical bool) error {
	if IsSystem(container) {
		return nil
	}
	is, known, err := namespaceOf(tx, account)
	if err == nil && known && is != hierarchical {
		err = ErrNamespace
	}
	return err
}

// namespaceOf reports whether an account is hierarchical, by its first container; known is false for an account without
// containers.
func namespaceOf(tx *store.Tx, account string) (hierarchical, known bool, err error) {
	scope := containerKey(account, "")
	cur := tx.Cursor(containersBucket)
	for k, _ := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, _ = cur.Next() {
		if name := string(k[len(scope):]); !IsSystem(name) {
			gen, err := containerGeneration(tx, account, name)
			return gen.isTree(), true, err
		}
	}
	return false, false, nil
}

// Namespace reports whether an account has containers, and then whether they are trees.
func (s *Store) Namespace(account string) (hierarchical, known bool, err error) {
	err = s.db.View(func(tx *store.Tx) error {
		hierarchical, known, err = namespaceOf(tx, account)
		return err
	})
	return hierarchical, known, err
}

// Hierarchical reports whether a container is a tree.
func (c *Container) Hierarchical() bool { return c.generation.isTree() }
