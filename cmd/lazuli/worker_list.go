package main

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/sdk/hostrow"
	"github.com/lazuli-storage/lazuli/workers"
)

// tablesFlag adds --connection-string to cmd and returns how to open the account's tables.
func tablesFlag(cmd *cobra.Command) target.Opener[aztables.ServiceClient] {
	return target.ServiceFlag(cmd, "table", func(s *workers.Storage) *aztables.ServiceClient { return s.Tables })
}

// processLine is a function of a process as JSON.
type processLine struct {
	hostrow.Process
	Functions any              `json:"functions,omitempty"` // hides those of the process
	Function  hostrow.Function `json:"function"`
	State     string           `json:"state"`
}

// newWorkersList makes `lazuli workers ls`.
func newWorkersList() *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "List all processes with workers that use an account, with their functions",
		Args: cobra.NoArgs,
		Long: `List all processes with workers that use an account, on Lazuli, Azurite or Azure, with their functions.

A process shows while it writes its heartbeat, every ten seconds: a program that calls workers.App.Run, "lazuli worker",
"lazuli func start" and the roles of "lazuli serve" (app lazuli). For a worker of a Durable Task SDK, the server that it
is connected to writes it: app durable-HUB, with the worker's address; its tasks cannot be paused. A process that misses
three is "gone", and is not listed after an hour. A function is "pausing" or "resuming" until the process has confirmed
it.`}
	open, output := tablesFlag(cmd), console.ListOutput(cmd)
	cmd.RunE = open.Run(func(cmd *cobra.Command, _ []string, client *aztables.ServiceClient) error {
		list, err := hostrow.Open(client).List(cmd.Context())
		if err != nil {
			return err
		}
		out := output("APP", "PROCESS", "HEARTBEAT", "FUNCTION", "SOURCE", "STATE", "IN FLIGHT", "SUCCEEDED", "FAILED",
			"POISONED").Or("no process with workers uses the account")
		shown := map[hostrow.Pause]bool{}
		for _, p := range list.Processes {
			for _, f := range p.Functions {
				state := list.State(p, f)
				shown[hostrow.Pause{App: p.App, Function: f.Name}] = true
				// A row that cannot be printed does not end the list: End returns the first error.
				err = errors.Join(err, out.Add(processLine{Process: p, Function: f, State: state}, p.App, where(p),
					max(list.Now.Sub(p.Beat), 0).Round(time.Second).String()+" ago", console.OneLine(f.Name),
					cmp.Or(console.OneLine(f.Source), "-"), state, f.InFlight, f.Succeeded, f.Failed, f.Poisoned))
			}
		}
		// A pause without a process is kept by the account, and would stop a function that someone starts next week.
		for _, p := range list.Pauses {
			if !shown[hostrow.Pause{App: p.App, Function: p.Function}] {
				out.Below("%s of %s is paused, and no process runs it", console.OneLine(p.Function), p.App)
			}
		}
		if list.More {
			out.Below("the account has more rows than are listed")
		}
		return out.End(err)
	})
	return cmd
}

// where says where a process runs. Of a worker of a workflow server, only the address is known.
func where(p hostrow.Process) string {
	machine := cmp.Or(console.OneLine(p.Machine), "-")
	if p.PID == 0 {
		return machine
	}
	return fmt.Sprintf("%s/%d", machine, p.PID)
}

// changeApp pauses or resumes a function in all processes of an app.
func changeApp(cmd *cobra.Command, open target.Opener[aztables.ServiceClient], app, function, verb string) error {
	client, err := open(cmd.Context())
	if err != nil {
		return err
	}
	store := hostrow.Open(client)
	list, err := store.List(cmd.Context())
	if err != nil {
		return err
	}
	// The rows are read before one is written: a pause of a misspelt function would be stored and never take effect.
	known, fixed := list.Find(app, function)
	switch {
	case !known:
		return fmt.Errorf("no process of %s has a function %s; lazuli workers ls lists the processes of the "+
			"account, and "+
			"lazuli workers %s without --app asks the process at --admin-port", app, function, verb)
	// Activities and orchestrations have no listener of their own to stop.
	case fixed && verb == "pause":
		return fmt.Errorf("%s of %s is part of workflows and cannot be paused; lazuli durable suspend INSTANCE suspends "+
			"an instance", function, app)
	case verb == "pause":
		err = store.Pause(cmd.Context(), app, function, time.Now().UTC())
	default:
		err = store.Resume(cmd.Context(), app, function)
	}
	if err != nil {
		return err
	}
	// The processes read the row with their heartbeat, so the change takes effect within that time.
	fmt.Fprintf(cmd.OutOrStdout(), "%sd %s of %s; its processes follow within some seconds\n", verb, function, app)
	return nil
}
