package server

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
)

// Account is a storage account.
type Account struct {
	// Name has 3 to 24 lower-case letters and digits.
	Name string
	// Keys are one or two keys in base64. Any of them signs.
	Keys []string
	// Settings are settings of the account by their names in docs/configuration.md, such as "hierarchical-namespace":
	// "true" or "container-soft-delete-days": "7". What is not in the map is off.
	Settings map[string]string
}

// String returns the name alone, so that no format verb prints the keys.
func (a Account) String() string { return a.Name }

// GoString is String, for %#v.
func (a Account) GoString() string { return a.Name }

// Issuer is a token issuer that is trusted.
type Issuer struct {
	// ID is the iss claim of its tokens, compared exactly, such as https://login.microsoftonline.com/TENANT/v2.0.
	ID string
	// KeysURL is where its signing keys are; "" finds them by the issuer's .well-known/openid-configuration. The URL must
	// use https, or a loopback address.
	KeysURL string
	// KeySet has the keys themselves, as a JSON Web Key Set (RFC 7517), in place of a URL.
	KeySet []byte
	// Audiences are accepted values of the aud claim, besides https://storage.azure.com and the account's own address.
	Audiences []string
}

// Role gives a principal a role on a scope.
type Role struct {
	// Principal is the object id or application id of a token, or the object id of a group in its groups claim; "*" is any
	// valid token.
	Principal string
	// Name is the name of a built-in role, such as "Storage Blob Data Reader".
	Name string
	// Scope is "account" or "account/name", where name is a container, queue or table, depending on the role. "*" is every
	// account.
	Scope string
}

// accounts returns the set of accounts; nil, which is the development account, for none. Errors name no keys.
func accounts(list []Account) (*auth.Accounts, error) {
	if len(list) == 0 {
		return nil, nil
	}
	set := make([]auth.Account, len(list))
	for i, a := range list {
		stored := auth.StoredAccount{Name: a.Name, Keys: a.Keys}
		// In the order of names, so that the error for several wrong settings is always the same.
		for _, name := range sortedKeys(a.Settings) {
			overrides, err := stored.Overrides.With(name, a.Settings[name])
			if err != nil {
				return nil, fmt.Errorf("account %q: %w", a.Name, err)
			}
			stored.Overrides = overrides
		}
		var err error
		if set[i], err = stored.Account(); err != nil {
			return nil, err
		}
	}
	return auth.NewManagedAccounts(accountprops.Blob{}, set...)
}

// oauth returns the checker of bearer tokens; nil, which refuses them, without an issuer.
func oauth(issuers []Issuer, roles []Role) (*auth.OAuth, error) {
	if len(issuers) == 0 {
		if len(roles) > 0 {
			return nil, errors.New("there are Roles and no Issuers")
		}
		return nil, nil
	}
	trusted := make([]auth.Issuer, len(issuers))
	for i, is := range issuers {
		keys, err := is.keys()
		if err != nil {
			return nil, fmt.Errorf("issuer %q: %w", is.ID, err)
		}
		trusted[i] = auth.Issuer{ID: is.ID, Keys: keys, Audiences: is.Audiences}
	}
	assigned := make([]auth.Assignment, len(roles))
	for i, r := range roles {
		assigned[i] = auth.Assignment{Principal: r.Principal, Role: r.Name, Scope: r.Scope}
	}
	set, err := auth.NewRoles(assigned...)
	if err != nil {
		return nil, err
	}
	return auth.NewOAuth(set, trusted...)
}

func (is Issuer) keys() (auth.KeySource, error) {
	if len(is.KeySet) == 0 {
		return auth.NewRemoteKeys(is.ID, is.KeysURL)
	}
	if is.KeysURL != "" {
		return nil, errors.New("KeysURL and KeySet exclude each other")
	}
	return auth.ParseJWKS(is.KeySet)
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
