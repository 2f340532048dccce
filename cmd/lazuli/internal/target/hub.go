package target

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	taskhub "github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/hubname"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/workers"
)

// HubFlag adds --connection-string and --hub to a verb, and returns how to open the hub.
func HubFlag(cmd *cobra.Command) Opener[taskhub.Client] { return hubFlag(cmd, taskhub.NewClient) }

// HubReadFlag is [HubFlag] for a verb that only reads, which also reads hubs of other engines.
func HubReadFlag(cmd *cobra.Command) Opener[taskhub.Reader] { return hubFlag(cmd, taskhub.NewReader) }

func hubFlag[T any](cmd *cobra.Command, open func(context.Context, taskhub.Options) (*T, error)) Opener[T] {
	account := StorageFlag(cmd)
	name := cmd.Flags().String("hub", hubname.Default, "task hub")
	return func(ctx context.Context) (*T, error) {
		storage, err := account(ctx)
		if err != nil {
			return nil, err
		}
		hub, err := open(ctx, taskhub.Options{Storage: storage, Hub: *name})
		if errors.Is(err, record.ErrHubNotFound) {
			return nil, noHub(ctx, storage, *name)
		}
		return hub, err
	}
}

// Hub is a task hub of an account.
type Hub struct {
	Name string `json:"name"`
	// Engine is taskhub.EngineLazuli or another one, whose hub can be read.
	Engine string `json:"engine"`
}

// HubsOf returns the task hubs of an account. Every hub has the tables of its instances and histories, whatever its
// engine.
func HubsOf(ctx context.Context, s *workers.Storage) (hubs []Hub, err error) {
	if s.Blobs == nil || s.Tables == nil || s.Queues == nil {
		return nil, console.Usagef("the connection string needs a blob, a queue and a table endpoint")
	}
	// A program may have tables of either name. Only a name with both tables, whose reader finds a hub, is a task hub.
	histories := map[string]bool{}
	var names []string
	for pages := s.Tables.NewListTablesPager(nil); pages.More(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, t := range page.Tables {
			if name, ok := strings.CutSuffix(*t.Name, "History"); ok {
				histories[name] = true
			} else if name, ok := strings.CutSuffix(*t.Name, "Instances"); ok {
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		if !histories[name] || hubname.Check(name) != nil {
			continue
		}
		r, err := taskhub.NewReader(ctx, taskhub.Options{Storage: s, Hub: name})
		if errors.Is(err, record.ErrHubNotFound) {
			continue // deleted meanwhile, or tables of a program
		}
		if err != nil {
			return nil, err
		}
		hubs = append(hubs, Hub{name, r.Engine()})
	}
	return hubs, nil
}

// noHub is the error for a task hub that does not exist. It names those that do.
func noHub(ctx context.Context, s *workers.Storage, hub string) error {
	hubs, err := HubsOf(ctx, s)
	if err == nil && len(hubs) > 0 {
		var names []string
		for _, h := range hubs {
			names = append(names, h.Name)
		}
		return fmt.Errorf("%w: the account has no task hub %q; choose one with --hub: %s", record.ErrHubNotFound, hub,
			strings.Join(names, ", "))
	}
	return fmt.Errorf("%w: the account has no task hub %q, and no other; a program that runs workflows creates one",
		record.ErrHubNotFound, hub)
}
