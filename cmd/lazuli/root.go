package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// newRootCommand builds the tree of verbs. Without a verb the program serves.
func newRootCommand(m *Main) *cobra.Command {
	root := addServe(&cobra.Command{
		Use:   "lazuli",
		Short: "Azure-compatible tables, queues, blobs and worker roles in one process",
		Long: `Lazuli serves the Azure Blob, Queue and Table protocols from one process.

Without a verb it serves, as ` + "`lazuli serve`" + ` does, on Azurite's ports with the development account.
Every flag can be an environment variable (--blob-port is LAZULI_BLOB_PORT) or a line in a
configuration file. Azurite's flags are understood.`,
		Version:       longVersion(),
		SilenceErrors: true, // Main.Run reports them, once
		SilenceUsage:  true,
	}, m)
	root.SetVersionTemplate("lazuli {{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if strings.HasPrefix(err.Error(), "unknown") { // others say what a flag takes
			err = seeHelp(cmd, err)
		}
		return usageError{err}
	})
	for _, svc := range services {
		name := svc.service.String()
		root.AddCommand(addServeOf(&cobra.Command{Use: "azurite-" + name, Hidden: true, Short: "Run the " + svc.name + " service alone, as Azurite's program of this name does"}, m, name))
	}
	root.AddCommand(
		addServe(&cobra.Command{Use: "serve", Aliases: []string{"azurite"}, Short: "Run the services (the default)"}, m),
		newConfigCommand(m),
		newHealthCommand(m),
		newBlobCommand(),
		newQueueCommand(),
		newTableCommand(),
		newLogsCommand(),
		newSearchCommand(m),
		newWorkerCommand(m),
		newWorkersCommand(m),
		newFaultCommand(m),
		newEventCommand(m),
		newClusterCommand(m),
		newOpenCommand(m),
		newTopCommand(m),
		newFuncCommand(m),
		newDurableCommand(m),
		newDemoCommand(),
		newAccountCommand(),
		newExportCommand(),
		newImportCommand(m),
		newSASCommand(),
		newCertCommand(),
		newFsckCommand(m),
		newCompactCommand(m),
		newBenchCommand(),
		newVersionCommand(),
	)
	mistakesAreUsage(root)
	return root
}

// mistakesAreUsage makes wrong arguments of cmd and of all verbs below it usage errors.
func mistakesAreUsage(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError{seeHelp(cmd, err)}
			}
			return nil
		}
	}
	for _, c := range cmd.Commands() {
		mistakesAreUsage(c)
	}
}

func seeHelp(cmd *cobra.Command, err error) error {
	return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
}
