package main

import (
	"github.com/spf13/cobra"
)

// newRootCommand builds the tree of verbs. Without a verb the program serves.
func newRootCommand(m *Main) *cobra.Command {
	root := &cobra.Command{
		Use:           "lazuli",
		Short:         "Azure-compatible tables, queues, blobs and worker roles in one process",
		Args:          cobra.NoArgs,
		SilenceErrors: true, // Main.Run reports them, once
		SilenceUsage:  true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newVersionCommand())
	return root
}
