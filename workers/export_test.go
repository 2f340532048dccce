package workers

// Putting returns the number of messages of Enqueue that wait for the request under way.
func (s *Storage) Putting(queue string) int { return s.putters.of(s.Queues, queue).Waiting() }
