package tablesvc

import (
	"strings"

	state "github.com/lazuli-storage/lazuli/internal/state/table"
)

// Reset deletes the tables of an account whose names begin with prefix, in any case, and returns their number. An
// empty prefix also resets the service properties. It is a tool for operators, not an operation of the REST reference.
func (s *Service) Reset(account, prefix string) (deleted int, err error) {
	reset := func() error {
		deleted, err = s.state.Reset(account, prefix)
		return err
	}
	if prefix == "" {
		return deleted, s.properties.Remove(account, reset)
	}
	return deleted, reset()
}

// HasTables reports whether an account has a table that the system has not made, as it makes those of metrics.
func (s *Service) HasTables(account string) (has bool, err error) {
	err = s.state.ListTables(account, "", func(t state.Table) (more bool) {
		has = !strings.HasPrefix(t.Name, "$")
		return !has
	})
	return has, err
}
