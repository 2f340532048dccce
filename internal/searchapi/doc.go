// Package searchapi has what a search in an index of the search-index role asks and answers. It does not link the index
// itself, which is in package searchindex.
package searchapi

import "github.com/lazuli-storage/lazuli/internal/fault"

// The steps around the effects of the role.
var (
	BeforeRestart = fault.Declare("search-index/before-restart")
	AfterCreate   = fault.Declare("search-index/after-create")
	AfterRestart  = fault.Declare("search-index/after-restart")
	BeforeCommit  = fault.Declare("search-index/before-commit")
	AfterCommit   = fault.Declare("search-index/after-commit")
	BeforeSwitch  = fault.Declare("search-index/before-switch")
	AfterSwitch   = fault.Declare("search-index/after-switch")
)

// Points are the steps at which a demonstration kills the role.
func Points() []string {
	return []string{string(BeforeRestart), string(AfterCreate), string(AfterRestart), string(BeforeCommit),
		string(AfterCommit), string(BeforeSwitch), string(AfterSwitch)}
}
