// Package shops provides the accounts of tests of servers with shards: names of which any eight or more, from the first
// on, are in all of four shards.
package shops

import (
	"fmt"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
)

// Names returns the names of n accounts.
func Names(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("shop%02d", i))
	}
	return names
}

// Accounts returns accounts with these names, which have one key. It fails for text that is no key.
func Accounts(names []string, key string) (*auth.Accounts, error) {
	parsed, err := auth.ParseKey(key)
	if err != nil {
		return nil, err
	}
	var list []auth.Account
	for _, name := range names {
		list = append(list, auth.Account{Name: name, Keys: []auth.Key{parsed}})
	}
	return auth.NewAccounts(list...)
}
