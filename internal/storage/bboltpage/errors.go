package bboltpage

import "fmt"

// DamageError reports a page whose content bbolt cannot have written.
type DamageError struct {
	// Page is the number of the page; its offset in the file is Page times the page size.
	Page uint64
	// Problem describes the damage.
	Problem string
}

// Error names the page and the problem.
func (e *DamageError) Error() string { return fmt.Sprintf("page %d: %s", e.Page, e.Problem) }

func damaged(page uint64, format string, args ...any) error {
	return &DamageError{Page: page, Problem: fmt.Sprintf(format, args...)}
}
