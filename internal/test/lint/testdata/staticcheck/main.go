// Command staticcheck is honnef.co/go/tools/cmd/staticcheck with all its checks, but it builds the intermediate
// representation of our packages alone, and of a few of Go. Of all the others the original builds it to learn which
// functions are pure, never return nil, or want an even number of arguments, for three checks (SA4017, SA4023, SA5012).
package main

import (
	"os"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"honnef.co/go/tools/analysis/lint"
	"honnef.co/go/tools/lintcmd"
	"honnef.co/go/tools/lintcmd/version"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

const module = "github.com/lazuli-storage/lazuli"

// tables are the packages of Go whose pure functions SA4017 has in a table, which it applies when it comes to them.
var tables = []string{"errors", "fmt", "net/http", "sort", "strings", "time"}

func main() {
	cmd := lintcmd.NewCommand("staticcheck")
	cmd.SetVersion(version.Version, version.MachineVersion)
	cmd.ParseFlags(os.Args[1:])
	seen := map[*analysis.Analyzer]bool{}
	lists := [][]*lint.Analyzer{simple.Analyzers, staticcheck.Analyzers, stylecheck.Analyzers, {unused.Analyzer}}
	for _, list := range lists {
		for _, a := range list {
			ofOurs(a.Analyzer, seen)
		}
		cmd.AddAnalyzers(list...)
	}
	cmd.Run()
}

// ofOurs restricts an analyzer to our packages if it works on the intermediate representation, and all that it
// requires, and returns whether it did. An analyzer that reports is asked about our packages alone in any case; those
// that make facts are asked about the packages that ours import, too.
func ofOurs(a *analysis.Analyzer, seen map[*analysis.Analyzer]bool) bool {
	if restricted, ok := seen[a]; ok {
		return restricted
	}
	restrict := a.Name == "buildir"
	for _, required := range a.Requires {
		if ofOurs(required, seen) {
			restrict = true
		}
	}
	seen[a] = restrict
	if restrict {
		run := a.Run
		a.Run = func(pass *analysis.Pass) (any, error) {
			if path := pass.Pkg.Path(); path == module || strings.HasPrefix(path, module+"/") ||
				slices.Contains(tables, path) {
				return run(pass)
			}
			if a.ResultType == nil {
				return nil, nil
			}
			return reflect.Zero(a.ResultType).Interface(), nil
		}
	}
	return restrict
}
