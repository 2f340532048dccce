package dashboard

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
)

// Metadata is read from lists: in the headers of other answers, the SDK for Go does not keep the case of the names.

func containerMetadata(ctx context.Context, client *service.Client, name string) (string, error) {
	got, err := client.NewListContainersPager(&service.ListContainersOptions{Prefix: &name, MaxResults: to.Ptr(int32(1)),
		Include: service.ListContainersInclude{Metadata: true, System: true}}).NextPage(ctx)
	if err != nil || len(got.ContainerItems) == 0 || ptr.Value(got.ContainerItems[0].Name) != name {
		return "", err
	}
	return metadataText(got.ContainerItems[0].Metadata), nil
}

func blobMetadata(ctx context.Context, client *container.Client, name string) (string, error) {
	got, err := client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &name, MaxResults: to.Ptr(int32(1)),
		Include: container.ListBlobsInclude{Metadata: true}}).NextPage(ctx)
	if err != nil || len(got.Segment.BlobItems) == 0 || ptr.Value(got.Segment.BlobItems[0].Name) != name {
		return "", err
	}
	return metadataText(got.Segment.BlobItems[0].Metadata), nil
}

func queueMetadata(ctx context.Context, client *azqueue.ServiceClient, name string) (string, error) {
	got, err := client.NewListQueuesPager(&azqueue.ListQueuesOptions{Prefix: &name, MaxResults: to.Ptr(int32(1)),
		Include: azqueue.ListQueuesInclude{Metadata: true}}).NextPage(ctx)
	if err != nil || len(got.Queues) == 0 || ptr.Value(got.Queues[0].Name) != name {
		return "", err
	}
	return metadataText(got.Queues[0].Metadata), nil
}

// metadataText is metadata as lines "name: value".
func metadataText(m map[string]*string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out.WriteString(name + ": " + ptr.Value(m[name]) + "\n")
	}
	return out.String()
}

var (
	metadataName  = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
	metadataValue = lazyregexp.New(`^[ -~]*$`)
)

// parseMetadata reads lines "name: value" of metadata, which is sent as headers.
func parseMetadata(text string) (map[string]*string, error) {
	m, err := parseLines(text)
	for name, v := range m {
		if !metadataName().MatchString(name) {
			return nil, problem{http.StatusBadRequest, "The name " + name + " is not one of metadata",
				"Names have letters, digits and underscores, and do not begin with a digit."}
		}
		if !metadataValue().MatchString(ptr.Value(v)) {
			return nil, problem{http.StatusBadRequest, "The value of " + name + " has characters that metadata cannot have",
				"Values have ASCII characters."}
		}
	}
	return m, err
}

// parseLines reads lines "name: value".
func parseLines(text string) (map[string]*string, error) {
	m := make(map[string]*string)
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, v, found := strings.Cut(line, ":")
		if !found || strings.TrimSpace(name) == "" {
			return nil, problem{http.StatusBadRequest, "The line " + line + " is not of the form name: value",
				"One name and value a line."}
		}
		v = strings.TrimSpace(v)
		m[strings.TrimSpace(name)] = &v
	}
	return m, nil
}
