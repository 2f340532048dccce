package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/accountverb"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/help"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/serve"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/storageverb"
)

// newRootCommand builds the tree of verbs. Without a verb the program serves.
func newRootCommand(m *Main) *cobra.Command {
	root := addServe(&cobra.Command{
		Use:           "lazuli",
		Short:         "Azure-compatible tables, queues, blobs and worker roles in one process",
		Long:          "Lazuli serves the Azure Blob, Queue and Table protocols, and runs workers, functions and workflows on them.",
		Version:       longVersion(),
		SilenceErrors: true, // Main.Run reports them, once
		SilenceUsage:  true,
	}, m)
	root.SetVersionTemplate("lazuli {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if strings.HasPrefix(err.Error(), "unknown") { // others say what a flag takes
			err = help.UnknownFlag(cmd, err)
		}
		return console.Usage(err)
	})
	for _, svc := range serve.Services {
		name := svc.Service.String()
		root.AddCommand(addServeOf(&cobra.Command{Use: "azurite-" + name, Hidden: true,
			Short: "Run the " + svc.Name + " service alone, as Azurite's program of this name does"}, m, name))
	}
	root.AddCommand(
		addServe(&cobra.Command{Use: "serve", Aliases: []string{"azurite"}, Short: "Run the services (the default)"}, m),
		newConfigCommand(m),
		newHealthCommand(m),
		storageverb.NewBlob(),
		storageverb.NewQueue(m.Environ),
		storageverb.NewTable(),
		newScheduleCommand(),
		newLogsCommand(),
		newFindCommand(),
		newSearchCommand(m),
		newWorkerCommand(m),
		newWorkersCommand(m),
		newFaultCommand(m),
		newEventCommand(m),
		newClusterCommand(m),
		newOpenCommand(m),
		newTopCommand(m),
		newTraceCommand(m),
		newFuncCommand(m),
		newDurableCommand(m),
		newJobsCommand(),
		newDemoCommand(),
		accountverb.NewCommand(m.Environ),
		newBackupCommand(m),
		newRestoreCommand(),
		newStandbyCommand(m),
		newExportCommand(),
		newImportCommand(m),
		newSASCommand(),
		newCertCommand(),
		newFsckCommand(m),
		newCompactCommand(m),
		newBenchCommand(),
		newVersionCommand(),
	)
	root.SetHelpCommand(help.NewCommand(root))
	root.InitDefaultCompletionCmd()
	help.Finish(root)
	root.SetHelpFunc(help.For(root))
	return root
}
