package dashboard

import (
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
	"github.com/lazuli-storage/lazuli/internal/sdk/queuetool"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/display"
)

const (
	// countedAccounts is the number of accounts that the home page counts the content of.
	countedAccounts = 5
	// countedNames is the number of containers, queues and tables that are counted in an account.
	countedNames = 1000
	// countedQueues is the number of queues whose messages are counted.
	countedQueues = 100
)

// contents are the numbers of what an account has. A text ends in "+" if there is more.
type contents struct {
	Account                              string
	Containers, Queues, Tables, Messages string
	Poison                               []poisonQueue
}

// poisonQueue is a poison queue that has messages.
type poisonQueue struct {
	Name     string
	Messages int
}

// contents counts what the account of a request has.
func (d *dashboard) contents(r *http.Request) (c contents, err error) {
	c.Account = r.PathValue("account")
	blobs, err := d.BlobClient(r)
	if err != nil {
		return c, err
	}
	containers, err := blobs.NewListContainersPager(
		&service.ListContainersOptions{MaxResults: to.Ptr(int32(countedNames))}).NextPage(r.Context())
	if err != nil {
		return c, err
	}
	c.Containers = display.AtLeast(len(containers.ContainerItems), ptr.Value(containers.NextMarker) != "")
	tables, err := d.TableClient(r)
	if err != nil {
		return c, err
	}
	listed, err := tables.NewListTablesPager(&aztables.ListTablesOptions{Top: to.Ptr(int32(countedNames))}).NextPage(
		r.Context())
	if err != nil {
		return c, err
	}
	c.Tables = display.AtLeast(len(listed.Tables), ptr.Value(listed.NextTableName) != "")
	return c, d.countQueues(r, &c)
}

func (d *dashboard) countQueues(r *http.Request, c *contents) error {
	client, err := d.QueueClient(r)
	if err != nil {
		return err
	}
	queues, err := client.NewListQueuesPager(
		&azqueue.ListQueuesOptions{MaxResults: to.Ptr(int32(countedNames))}).NextPage(r.Context())
	if err != nil {
		return err
	}
	more := ptr.Value(queues.NextMarker) != ""
	c.Queues = display.AtLeast(len(queues.Queues), more)
	messages := 0
	for i, q := range queues.Queues {
		if i == countedQueues {
			more = true
			break
		}
		p, err := client.NewQueueClient(ptr.Value(q.Name)).GetProperties(r.Context(), nil)
		if err != nil {
			continue // deleted meanwhile
		}
		n := int(ptr.Value(p.ApproximateMessagesCount))
		messages += n
		if n > 0 && strings.HasSuffix(ptr.Value(q.Name), queuetool.PoisonSuffix) {
			c.Poison = append(c.Poison, poisonQueue{ptr.Value(q.Name), n})
		}
	}
	c.Messages = display.AtLeast(messages, more)
	return nil
}
