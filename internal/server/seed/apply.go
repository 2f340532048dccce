package seed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/directory"
	lakeservice "github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/sdk/laketool"
	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
)

// Target is the server that is filled. It takes requests without a credential if they bear [wire.WithSystem]'s mark.
type Target struct {
	// URL is an account's endpoint of a service.
	URL func(svc wire.Service, account string) string
	// Transport carries the requests.
	Transport http.RoundTripper
}

// Apply makes what the seed has and the server lacks. It stops at the first error, which names what could not be made;
// it can be done again.
func (s *Seed) Apply(ctx context.Context, t Target) error {
	ctx = wire.WithSystem(ctx)
	for _, account := range s.Accounts() {
		c := s.accounts[account]
		f := filler{ctx: ctx, target: t, account: account,
			options: policy.ClientOptions{Transport: &http.Client{Transport: t.Transport},
				Retry: policy.RetryOptions{MaxRetries: -1}}}
		for _, fill := range []func(content) error{f.tables, f.queues, f.containers} {
			if err := fill(c); err != nil {
				return fmt.Errorf("seed: account %s, %w", account, err)
			}
		}
	}
	return nil
}

// filler fills one account.
type filler struct {
	ctx     context.Context
	target  Target
	account string
	options policy.ClientOptions
}

// each calls do in the order of the names.
func each[V any](what string, m map[string]V, do func(name string, v V) error) error {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if err := do(name, m[name]); err != nil {
			return fmt.Errorf("%s %s: %w", what, name, err)
		}
	}
	return nil
}

// unless returns err but for an answer of one of the codes.
func unless(err error, codes ...string) error {
	var e *azcore.ResponseError
	if errors.As(err, &e) && slices.Contains(codes, e.ErrorCode) {
		return nil
	}
	return err
}

func (f *filler) tables(c content) error {
	client, err := aztables.NewServiceClientWithNoCredential(f.target.URL(wire.Table, f.account),
		&aztables.ClientOptions{ClientOptions: f.options})
	if err != nil {
		return err
	}
	return each("table", c.Tables, func(name string, entities []map[string]any) error {
		if _, err := client.CreateTable(f.ctx, name, nil); unless(err, "TableAlreadyExists") != nil {
			return err
		}
		table := client.NewClient(name)
		for i, e := range entities {
			text, err := encodeEntity(e)
			if err == nil {
				_, err = table.AddEntity(f.ctx, text, nil)
			}
			if unless(err, "EntityAlreadyExists") != nil {
				return fmt.Errorf("entity %d: %w", i+1, err)
			}
		}
		return nil
	})
}

func (f *filler) queues(c content) error {
	client, err := azqueue.NewServiceClientWithNoCredential(f.target.URL(wire.Queue, f.account),
		&azqueue.ClientOptions{ClientOptions: f.options})
	if err != nil {
		return err
	}
	return each("queue", c.Queues, func(name string, q queue) error {
		q1 := client.NewQueueClient(name)
		// 201 for a queue that is new, and 204 for one with the same metadata.
		var answer *http.Response
		ctx := policy.WithCaptureResponse(f.ctx, &answer)
		if _, err := q1.Create(ctx, &azqueue.CreateOptions{Metadata: ptr.Values(q.Metadata)}); err != nil {
			return unless(err, "QueueAlreadyExists")
		}
		// The messages were put when the queue was made, or the queue is not of the seed. Messages have no names by which a
		// second one could be refused.
		if answer.StatusCode != http.StatusCreated {
			return nil
		}
		for i, m := range q.Messages {
			o := azqueue.EnqueueMessageOptions{VisibilityTimeout: to.Ptr(int32(m.visibility.Seconds()))}
			if m.ttl > 0 {
				o.TimeToLive = to.Ptr(int32(m.ttl.Seconds()))
			}
			if _, err := q1.EnqueueMessage(f.ctx, m.Text, &o); err != nil {
				return fmt.Errorf("message %d: %w", i+1, err)
			}
		}
		return nil
	})
}

func (f *filler) containers(c content) error {
	client, err := service.NewClientWithNoCredential(f.target.URL(wire.Blob, f.account),
		&service.ClientOptions{ClientOptions: f.options})
	if err != nil {
		return err
	}
	return each("container", c.Containers, func(name string, b box) error {
		o := container.CreateOptions{Metadata: ptr.Values(b.Metadata)}
		if b.PublicAccess != "" {
			o.Access = to.Ptr(container.PublicAccessType(b.PublicAccess))
		}
		box := client.NewContainerClient(name)
		_, err := box.Create(f.ctx, &o)
		made := err == nil
		if unless(err, string(bloberror.ContainerAlreadyExists)) != nil {
			return err
		}
		// Directories come first: what is in them gets what their lists have for it.
		err = each("directory", b.Directories, func(path string, a access) error {
			return f.directory(name, strings.Trim(path, "/"), a, made)
		})
		if err != nil {
			return err
		}
		return each("blob", b.Blobs, func(path string, b seedBlob) error {
			made, err := f.blob(box.NewBlockBlobClient(path), b)
			if err != nil || !made || b.Access == (access{}) {
				return err
			}
			return f.setAccess(name, path, b.Access)
		})
	})
}

// lake returns a client of the dfs endpoint.
func (f *filler) lake() (*lakeservice.Client, error) {
	return lakeservice.NewClientWithNoCredential(f.target.URL(wire.DataLake, f.account),
		&lakeservice.ClientOptions{ClientOptions: f.options})
}

// directory creates a directory, unless it exists. Of the root, made says whether the container is new.
func (f *filler) directory(container, path string, a access, made bool) error {
	client, err := f.lake()
	if err != nil {
		return err
	}
	if path != "" {
		absent := directory.AccessConditions{ModifiedAccessConditions: &directory.ModifiedAccessConditions{
			IfNoneMatch: to.Ptr(azcore.ETagAny)}}
		_, err := client.NewFileSystemClient(container).NewDirectoryClient(path).Create(f.ctx,
			&directory.CreateOptions{AccessConditions: &absent})
		if made = err == nil; unless(err, "PathAlreadyExists") != nil {
			return err
		}
	}
	if !made || a == (access{}) {
		return nil
	}
	return f.setAccess(container, path, a)
}

func (f *filler) setAccess(container, path string, a access) error {
	client, err := f.lake()
	if err != nil {
		return err
	}
	return laketool.SetAccess(f.ctx, client, container, path,
		laketool.Access{Owner: a.Owner, Group: a.Group, Permissions: a.Permissions, ACL: a.ACL})
}

// blob creates a blob, unless it exists.
func (f *filler) blob(client *blockblob.Client, b seedBlob) (made bool, err error) {
	absent := &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(
		azcore.ETagAny)}}
	headers := &blob.HTTPHeaders{}
	if b.ContentType != "" {
		headers.BlobContentType = &b.ContentType
	}
	var content io.Reader = bytes.NewReader(b.content)
	if b.File != "" {
		file, err := os.Open(b.File)
		if err != nil {
			return false, err
		}
		defer file.Close()
		content = file
	}
	_, err = client.UploadStream(f.ctx, content,
		&blockblob.UploadStreamOptions{HTTPHeaders: headers, Metadata: ptr.Values(b.Metadata), Tags: b.Tags,
			AccessConditions: absent})
	return err == nil, unless(err, string(bloberror.BlobAlreadyExists))
}
