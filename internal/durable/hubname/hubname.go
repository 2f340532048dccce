// Package hubname has the rules for the names of task hubs: as Durable Functions has them, and as the Durable Task
// Scheduler does.
package hubname

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
)

// Default is the name of the hub that is used when none is given.
const Default = "default"

// valid is the rule of Durable Functions for names of hubs, which makes valid names of tables, queues and containers.
// https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-task-hubs#task-hub-names
var valid = lazyregexp.New(`^[A-Za-z][A-Za-z0-9]{2,44}$`)

// Check returns an error for a name that a hub cannot have.
func Check(name string) error {
	if !valid().MatchString(name) {
		return fmt.Errorf("durable: the hub name %q is not 3 to 45 letters and digits that begin with a letter", name)
	}
	return nil
}

// schedulers is the rule for names of task hubs that [Stored] takes.
var schedulers = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Stored returns the name under which a task hub of the Durable Task Scheduler is stored. Names that hubs can have stay
// as they are. Others of 1 to 64 letters, digits, "-", "." and "_" lose these characters and get a part of their hash:
// "my-hub" is stored as "myhub", "X" and eight digits. Names do not differ by case.
func Stored(name string) (string, error) {
	if valid().MatchString(name) {
		return name, nil
	}
	if !schedulers().MatchString(name) {
		return "", fmt.Errorf("durable: the name %.100q of a task hub is not 1 to 64 letters, digits, -, . and _", name)
	}
	letters := strings.Map(func(r rune) rune {
		if strings.ContainsRune("-._", r) {
			return -1
		}
		return r
	}, name)
	if letters[0] <= '9' {
		letters = "h" + letters
	}
	sum := sha256.Sum256([]byte(strings.ToLower(name)))
	return fmt.Sprintf("%.36sX%x", letters, sum[:4]), nil
}
