package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
)

// parseAccounts reads accounts with semicolons between them, each as [auth.ParseAccount] has it: "name:key1[:key2];..."
// is the form of AZURITE_ACCOUNTS. Errors name accounts, never keys.
func parseAccounts(text string) ([]auth.Account, error) {
	var list []auth.Account
	for part := range strings.SplitSeq(strings.TrimSpace(text), ";") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		stored, err := auth.ParseAccount(part)
		if err != nil {
			// By its number: the part that does not parse may be a key.
			return nil, fmt.Errorf("account %d: %w", len(list)+1, err)
		}
		a, err := stored.Account()
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	if len(list) == 0 {
		return nil, errors.New("no account is given")
	}
	return list, auth.CheckAccounts(list...)
}

// formatAccounts is parseAccounts' form with redacted keys.
func formatAccounts(list []auth.Account) string {
	parts := make([]string, len(list))
	for i, a := range list {
		parts[i] = a.Name
		for _, k := range a.Keys {
			parts[i] += ":" + k.String()
		}
		if len(a.Overrides) > 0 {
			parts[i] += " " + a.Overrides.String()
		}
	}
	return strings.Join(parts, ";")
}

// parseRoles reads "principal:role:scope;principal:role:scope;...".
func parseRoles(text string) ([]auth.Assignment, error) {
	var list []auth.Assignment
	for part := range strings.SplitSeq(strings.TrimSpace(text), ";") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		fields := strings.Split(part, ":")
		if len(fields) != 3 {
			return nil, fmt.Errorf("role %d is not of the form principal:role:scope", len(list)+1)
		}
		list = append(list, auth.Assignment{Principal: strings.TrimSpace(fields[0]), Role: strings.TrimSpace(fields[1]),
			Scope: strings.TrimSpace(fields[2])})
	}
	if len(list) == 0 {
		return nil, errors.New("no role is given")
	}
	// Roles and scopes are checked here, where the error still names the option; the result is made again from the list.
	_, err := auth.NewRoles(list...)
	return list, err
}

// formatRoles is the inverse of parseRoles.
func formatRoles(list []auth.Assignment) string {
	parts := make([]string, len(list))
	for i, a := range list {
		parts[i] = a.Principal + ":" + a.Role + ":" + a.Scope
	}
	return strings.Join(parts, ";")
}
