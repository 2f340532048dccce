package frontend

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Touch is one thing that an operation does beyond [Operation.Needs]: to another path that the request names, or
// because the request has an option. Before the handler runs, the front-end has the service check each touch of the
// operation that the request makes.
type Touch struct {
	// Does is what happens to the path.
	Does Deed
	// Source is the header, in Go's canonical form, that names the path; "" is the path of the URL.
	Source string
	// Options are headers, in Go's canonical form, of which one makes the operation do it: "Name", or "Name=value" for
	// one value in any case. Without options the operation always does it.
	Options []string
	// Need is the permission that the caller needs on the path.
	Need auth.Need
	// IfExists is set if the operation does it only to what exists already, which the handler's transaction finds out: a
	// caller without the permission is refused there.
	IfExists bool
}

// Deed is what an operation does to a path.
type Deed uint8

// The deeds.
const (
	// Reads its content, or its tags.
	Reads Deed = iota + 1
	// Takes it away from where it is.
	Takes
	// Overwrites what is there.
	Overwrites
	// Changes its properties.
	Changes
	// Alters its permissions or its access control list.
	Alters
	// Chowns gives it another owner or owning group.
	Chowns
	// Restores it after its deletion.
	Restores
	// Spans everything below it.
	Spans
)

// String returns the verb.
func (d Deed) String() string {
	return [...]string{"", "reads", "takes", "overwrites", "changes", "alters", "chowns", "restores", "spans"}[d]
}

// SourceHeaders are the headers, in Go's canonical form, that name a second path. A row that requires one of them
// declares what the operation does to that path.
var SourceHeaders = []string{"X-Ms-Copy-Source", "X-Ms-Rename-Source", "X-Ms-Undelete-Source",
	"X-Ms-Source-Container-Name", "X-Ms-Deleted-Container-Name"}

// Applies reports whether a request makes the touch.
func (t *Touch) Applies(r *wire.Request) bool {
	if t.Source != "" && !r.HasHeader(t.Source) {
		return false
	}
	return len(t.Options) == 0 || slices.ContainsFunc(t.Options, func(option string) bool {
		name, value, valued := strings.Cut(option, "=")
		if valued {
			return strings.EqualFold(r.Header(name), value)
		}
		return r.Header(name) != ""
	})
}

// checkTouches returns an error if the declaration of a row is not complete.
func checkTouches(name string, needs auth.Need, has []string, touches []Touch) error {
	if needs == (auth.Need{}) {
		return fmt.Errorf("frontend: %s does not declare which permission it needs", name)
	}
	for _, header := range SourceHeaders {
		if slices.Contains(has, header) &&
			!slices.ContainsFunc(touches, func(t Touch) bool { return t.Source == header && len(t.Options) == 0 }) {
			return fmt.Errorf("frontend: %s does not declare what it does to the path in %s", name, header)
		}
	}
	for _, t := range touches {
		if t.Does == 0 || t.Need == (auth.Need{}) {
			return fmt.Errorf("frontend: %s declares a touch without its deed or its permission", name)
		}
	}
	return nil
}
