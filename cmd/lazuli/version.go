package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the release, set by the linker: -ldflags "-X main.version=1.2.3". Empty, the module's own version is
// shown, as `go install` records it.
var version string

// versionText returns the version and, where the build knows it, the commit.
func versionText() string {
	v, commit, dirty := version, "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if v == "" {
			v = info.Main.Version
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && len(s.Value) >= 12:
				commit = " " + s.Value[:12]
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = "+changes"
			}
		}
	}
	if v == "" || v == "(devel)" {
		v = "development build"
	}
	return v + commit + dirty
}

// longVersion also says what the binary was made with and for.
func longVersion() string {
	return fmt.Sprintf("%s (%s, %s/%s)", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "lazuli %s\n", longVersion())
			return err
		},
	}
}
