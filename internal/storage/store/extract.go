package store

// Extract writes everything that a View sees to a new file, that of a single server: with Options.Log, at least what
// any node had committed before the call. Reads and writes go on meanwhile.
func (db *DB) Extract(path string) error {
	pins, err := PinAll(db)
	if err != nil {
		return err
	}
	defer pins[0].Close()
	return pins[0].Extract(path)
}
