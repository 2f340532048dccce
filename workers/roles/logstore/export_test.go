package logstore

// Waiting returns the number of lines that wait for a flush.
func (w *Writer) Waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, p := range w.open {
		n += len(p.lines)
	}
	return n
}
