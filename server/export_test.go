package server

// Waiting returns how many requests wait for a change.
func (s *Stack) Waiting() int { return s.services.Load().board.Waiting() }
