package queues

import (
	"fmt"
	"time"
)

// MaxLease is the longest time for which a message can be hidden.
const MaxLease = 7 * 24 * time.Hour

// ValidateName checks the rules of
// https://learn.microsoft.com/rest/api/storageservices/naming-queues-and-metadata.
func ValidateName(name string) error {
	if len(name) < 3 || len(name) > 63 {
		return fmt.Errorf("queue name %q is not 3 to 63 characters long", name)
	}
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		inner := i > 0 && i < len(name)-1
		if !letter && (c != '-' || !inner || name[i-1] == '-') {
			return fmt.Errorf("queue name %q may hold only lower-case letters, digits and single dashes between them", name)
		}
	}
	return nil
}
