package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

// newDurableHubsCommand makes `lazuli durable hubs`.
func newDurableHubsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "hubs", Short: "List the task hubs of the account", Args: cobra.NoArgs,
		Long: "List the task hubs of the account. Their names are those for --hub.", Example: "  lazuli durable hubs"}
	connection, begin := accountFlag(cmd), console.ListOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		account, err := connection()
		if err != nil {
			return err
		}
		storage, err := openStorage(account)
		if err != nil {
			return err
		}
		hubs, err := hubsOf(cmd.Context(), storage)
		out := begin("HUB").Or("the account has no task hubs; a program that runs workflows makes one")
		for _, hub := range hubs {
			if err == nil {
				err = out.Add(struct {
					Name string `json:"name"`
				}{hub}, hub)
			}
		}
		return out.End(err)
	}
	return cmd
}

// hubLeases ends the name of the container that every task hub has.
const hubLeases = "-leases"

// hubsOf returns the names of the task hubs of an account. A name of a container has no capital letters, so the table
// of the instances gives the name its form.
func hubsOf(ctx context.Context, s *workers.Storage) (hubs []string, err error) {
	if s.Blobs == nil || s.Tables == nil {
		return nil, console.Usagef("the connection string needs a blob and a table endpoint")
	}
	candidates := map[string]bool{}
	for pages := s.Blobs.NewListContainersPager(nil); pages.More(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, c := range page.ContainerItems {
			if name, ok := strings.CutSuffix(*c.Name, hubLeases); ok {
				candidates[name] = true
			}
		}
	}
	for pages := s.Tables.NewListTablesPager(nil); len(candidates) > 0 && pages.More(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, t := range page.Tables {
			if name, ok := strings.CutSuffix(*t.Name, "Instances"); ok && candidates[strings.ToLower(name)] {
				hubs = append(hubs, name)
			}
		}
	}
	return hubs, nil
}

// noHub is the error for a task hub that does not exist. It names those that do.
func noHub(ctx context.Context, s *workers.Storage, hub string) error {
	hubs, err := hubsOf(ctx, s)
	if err == nil && len(hubs) > 0 {
		return fmt.Errorf("%w: the account has no task hub %q; choose one with --hub: %s", durable.ErrHubNotFound, hub,
			strings.Join(hubs, ", "))
	}
	return fmt.Errorf("%w: the account has no task hub %q, and no other; a program that runs workflows creates one",
		durable.ErrHubNotFound, hub)
}
