package rig

import (
	"context"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
	"github.com/lazuli-storage/lazuli/workers"
)

// namesWith returns the tables, queues and containers of an account whose names have a part, each with its kind.
func namesWith(ctx context.Context, storage *workers.Storage, part string) (names []string, err error) {
	// Queues and containers have lower-case names and tables may have capitals; one prefix has to find all three.
	add := func(kind, name string) {
		if strings.Contains(strings.ToLower(name), part) {
			names = append(names, kind+" "+name)
		}
	}
	if storage.Tables != nil {
		for pager := storage.Tables.NewListTablesPager(nil); pager.More(); {
			page, err := pager.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			for _, t := range page.Tables {
				add("table", ptr.Value(t.Name))
			}
		}
	}
	if storage.Queues != nil {
		for pager := storage.Queues.NewListQueuesPager(&azqueue.ListQueuesOptions{}); pager.More(); {
			page, err := pager.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			for _, q := range page.Queues {
				add("queue", ptr.Value(q.Name))
			}
		}
	}
	if storage.Blobs != nil {
		for pager := storage.Blobs.NewListContainersPager(nil); pager.More(); {
			page, err := pager.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			for _, c := range page.ContainerItems {
				add("container", ptr.Value(c.Name))
			}
		}
	}
	return names, nil
}
