package dashboard

import (
	"context"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
	"github.com/lazuli-storage/lazuli/internal/sdk/queuetool"
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
	blobs, err := d.blobClient(r)
	if err != nil {
		return c, err
	}
	containers, err := blobs.NewListContainersPager(
		&service.ListContainersOptions{MaxResults: to.Ptr(int32(countedNames))}).NextPage(r.Context())
	if err != nil {
		return c, err
	}
	c.Containers = atLeast(len(containers.ContainerItems), ptr.Value(containers.NextMarker) != "")
	tables, err := d.tableClient(r)
	if err != nil {
		return c, err
	}
	listed, err := tables.NewListTablesPager(&aztables.ListTablesOptions{Top: to.Ptr(int32(countedNames))}).NextPage(
		r.Context())
	if err != nil {
		return c, err
	}
	c.Tables = atLeast(len(listed.Tables), ptr.Value(listed.NextTableName) != "")
	return c, d.countQueues(r, &c)
}

func (d *dashboard) countQueues(r *http.Request, c *contents) error {
	client, err := d.queueClient(r)
	if err != nil {
		return err
	}
	queues, err := client.NewListQueuesPager(
		&azqueue.ListQueuesOptions{MaxResults: to.Ptr(int32(countedNames))}).NextPage(r.Context())
	if err != nil {
		return err
	}
	more := ptr.Value(queues.NextMarker) != ""
	c.Queues = atLeast(len(queues.Queues), more)
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
	c.Messages = atLeast(messages, more)
	return nil
}

func atLeast(n int, more bool) string {
	if more {
		return count(n) + "+"
	}
	return count(n)
}

var errNothingChosen = problem{http.StatusBadRequest, "Nothing is chosen", "Choose in the first column of the list."}

// changeList creates the resource that the form of a list names, or removes those that are chosen. list is the part of
// the list's address.
func changeList(w http.ResponseWriter, r *http.Request, list string, create,
	remove func(ctx context.Context, name string) error) error {
	here := []string{"accounts", r.PathValue("account"), list}
	switch r.PostFormValue("action") {
	case "create":
		name := strings.TrimSpace(r.PostFormValue("name"))
		return back(w, r, create(r.Context(), name), link(append(here, name)...), "created")
	case "delete":
		return back(w, r, removeChosen(r, func(name string) error { return remove(r.Context(), name) }), link(here...),
			"deleted")
	}
	return errAction
}

// removeChosen calls remove for each name that a list's form has chosen.
func removeChosen(r *http.Request, remove func(name string) error) error {
	chosen := r.PostForm["chosen"]
	if len(chosen) == 0 {
		return errNothingChosen
	}
	for _, name := range chosen {
		if err := remove(name); err != nil {
			return err
		}
	}
	return nil
}
