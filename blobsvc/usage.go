package blobsvc

import "github.com/lazuli-storage/lazuli/blobsvc/internal/state"

// Usage is the space that the service's state takes, and the work on it since it was opened.
type Usage = state.Usage

// Usage returns the space that the service's state takes.
func (s *Service) Usage() (Usage, error) { return s.state.Usage() }
