package state

import "time"

// Extract writes the state to a new file of a server alone. The cluster may go on: positions in the logs of changes
// that only it will have are unknown in the file.
func (s *Store) Extract(path string, now time.Time) error {
	if err := s.db.Extract(path); err != nil {
		return err
	}
	return Fork(path, now)
}
