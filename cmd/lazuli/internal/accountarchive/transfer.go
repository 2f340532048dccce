package accountarchive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// Transfer copies an account with its service properties to another one that has none of its tables, queues and
// containers, by an archive in dir. The archive is removed once everything is copied; after an error it stays, and a
// further call continues with it. What the protocol does not show ends the transfer before anything is written; partial
// allows it.
func Transfer(ctx context.Context, from, to Account, dir string, s Selection, partial bool, o Options) (*Manifest,
	Result, error) {
	m, err := exported(ctx, from, dir, s, o)
	if err != nil {
		return nil, Result{}, err
	}
	if n := m.Missing(); n > 0 && !partial {
		return m, Result{}, fmt.Errorf("%w: %s", ErrPartial, counted(n))
	}
	result, err := Import(ctx, to, dir, ImportOptions{Options: o})
	if err != nil {
		return m, result, err
	}
	if err := copyProperties(ctx, from, to); err != nil {
		return m, result, fmt.Errorf("service properties: %w", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return m, result, err
	}
	// An archive that comes back after a power failure would be what a later transfer copies, as it was now.
	return m, result, disk.SyncDir(filepath.Dir(dir))
}

// ErrPartial means that some items cannot be read through the protocol. The manifest names them.
var ErrPartial = errors.New("a part of the account cannot be copied")

// exported makes the archive, or returns the whole one that an earlier call has made.
func exported(ctx context.Context, from Account, dir string, s Selection, o Options) (*Manifest, error) {
	if _, err := os.Stat(filepath.Join(dir, sumsName)); errors.Is(err, fs.ErrNotExist) {
		return Export(ctx, from, dir, s, o)
	} else if err != nil {
		return nil, err
	}
	m, err := Verify(dir)
	if err == nil && m.Source != from.Address {
		err = fmt.Errorf("%s has an export of %s, not of %s", dir, m.Source, from.Address)
	}
	return m, err
}

// copyProperties copies the properties of the three services: CORS rules, logging and metrics, soft deletion, the
// static website.
func copyProperties(ctx context.Context, from, to Account) error {
	// An account may lack a service, as a Data Lake account at another address does.
	if from.Tables != nil && to.Tables != nil {
		p, err := from.Tables.GetProperties(ctx, nil)
		if err != nil {
			return err
		}
		if _, err := to.Tables.SetProperties(ctx, p.ServiceProperties, &aztables.SetPropertiesOptions{}); err != nil {
			return err
		}
	}
	if from.Queues != nil && to.Queues != nil {
		p, err := from.Queues.GetServiceProperties(ctx, nil)
		if err != nil {
			return err
		}
		if _, err := to.Queues.SetProperties(ctx,
			&azqueue.SetPropertiesOptions{CORS: p.CORS, HourMetrics: p.HourMetrics, Logging: p.Logging,
				MinuteMetrics: p.MinuteMetrics}); err != nil {
			return err
		}
	}
	if from.Blobs == nil || to.Blobs == nil {
		return nil
	}
	p, err := from.Blobs.ServiceClient().GetProperties(ctx, nil)
	if err != nil {
		return err
	}
	_, err = to.Blobs.ServiceClient().SetProperties(ctx,
		&service.SetPropertiesOptions{CORS: p.CORS, DefaultServiceVersion: p.DefaultServiceVersion,
			DeleteRetentionPolicy: p.DeleteRetentionPolicy, HourMetrics: p.HourMetrics, Logging: p.Logging,
			MinuteMetrics: p.MinuteMetrics, StaticWebsite: p.StaticWebsite})
	return err
}
