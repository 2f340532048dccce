package target

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

// HubFlag adds --connection-string and --hub to a verb, and returns how to open the hub.
func HubFlag(cmd *cobra.Command) Opener[durable.Client] {
	open := StorageFlag(cmd)
	hub := cmd.Flags().String("hub", durable.DefaultHub, "task hub")
	return func(ctx context.Context) (*durable.Client, error) {
		storage, err := open(ctx)
		if err != nil {
			return nil, err
		}
		c, err := durable.NewClient(ctx, durable.Options{Storage: storage, Hub: *hub})
		if errors.Is(err, durable.ErrHubNotFound) {
			return nil, noHub(ctx, storage, *hub)
		}
		return c, err
	}
}

// hubLeases ends the name of the container that every task hub has.
const hubLeases = "-leases"

// HubsOf returns the names of the task hubs of an account. A name of a container has no capital letters, so the table
// of the instances gives the name its form.
func HubsOf(ctx context.Context, s *workers.Storage) (hubs []string, err error) {
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
	hubs, err := HubsOf(ctx, s)
	if err == nil && len(hubs) > 0 {
		return fmt.Errorf("%w: the account has no task hub %q; choose one with --hub: %s", durable.ErrHubNotFound, hub,
			strings.Join(hubs, ", "))
	}
	return fmt.Errorf("%w: the account has no task hub %q, and no other; a program that runs workflows creates one",
		durable.ErrHubNotFound, hub)
}
