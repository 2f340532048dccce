package tablesvc

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
