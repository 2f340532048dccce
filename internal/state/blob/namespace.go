package blob

import (
	"bytes"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// IsSystem reports whether the system writes a container; such containers are flat in all accounts.
func IsSystem(container string) bool {
	return strings.HasPrefix(container, "$") && container != record.RootContainer
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
	scope := record.ContainerKey(account, "")
	cur := tx.Cursor(record.ContainersBucket)
	for k, _ := cur.Seek(scope); k != nil && bytes.HasPrefix(k, scope); k, _ = cur.Next() {
		if name := string(k[len(scope):]); !IsSystem(name) {
			gen, err := record.GenerationOf(tx, account, name)
			return gen.IsTree(), true, err
		}
	}
	return false, false, nil
}
