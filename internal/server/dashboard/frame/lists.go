package frame

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/sdk/jobrow"
	"github.com/lazuli-storage/lazuli/internal/sdk/poison"
	"github.com/lazuli-storage/lazuli/internal/sdk/schedulerow"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/taskhub"
)

// PageSize is the number of rows that a page shows.
const PageSize = 100

// hostContainers begins the names of the containers that hosts of functions keep for themselves.
// https://learn.microsoft.com/azure/azure-functions/storage-considerations
const hostContainers = "azure-webjobs-"

// runtimeTables are the tables that the runtime of workers keeps for itself; the last one is that of rate limits,
// which a server without workers does not link.
var runtimeTables = []string{poison.Table, schedulerow.Table, jobrow.Table, "lazuliratelimits"}

// ownership tells the resources of task hubs and of other runtimes from a person's, in one account and for one page.
type ownership struct {
	ctx  context.Context
	hubs *service.Client
	seen map[string]bool // whether a hub exists, by its name in lower case
}

// ownershipOf looks into the page's account.
func (d *Site) ownershipOf(r *http.Request) (*ownership, error) {
	client, err := d.BlobClient(r)
	return &ownership{ctx: r.Context(), hubs: client, seen: map[string]bool{}}, err
}

// runtimes reports whether a container, queue or table is one of a runtime. A name alone decides only if no person
// chooses such a name: a table OrderHistory is that of a hub only if there is the hub Order. A queue for messages that
// failed is a person's in any case.
func (o *ownership) runtimes(of wire.Service, name string) bool {
	name = strings.ToLower(name)
	switch {
	case of == wire.Blob && strings.HasPrefix(name, hostContainers),
		of == wire.Table && slices.Contains(runtimeTables, name):
		return true
	case of == wire.Queue && strings.HasSuffix(name, poison.Suffix):
		return false
	}
	if hub, _, ok := strings.Cut(name, "-control-"); ok && of == wire.Queue && o.hub(hub) {
		return true
	}
	return slices.ContainsFunc(taskhub.Parts[of.String()], func(end string) bool {
		hub, ok := strings.CutSuffix(name, end)
		return ok && o.hub(hub)
	})
}

// hub reports whether there is a task hub with the name.
func (o *ownership) hub(name string) bool {
	found, looked := o.seen[name]
	if !looked && name != "" {
		_, found = taskhub.Read(o.ctx, o.hubs, name+taskhub.Suffix)
		o.seen[name] = found
	}
	return found
}

// ownPages bounds the pages of a list that are read to fill a page of the dashboard with what is a person's.
const ownPages = 20

// List is a page of the containers, queues or tables of an account.
type List[T any] struct {
	Rows   []T
	Next   string
	Hidden int  // resources of runtimes that are not in rows
	Own    bool // they were asked for
}

// ReadList reads a page of a list without what is of runtimes, unless the query asks for it with own=1.
func ReadList[T any](d *Site, r *http.Request, of wire.Service, name func(T) string,
	read func(limit int32, marker string) ([]T, string, error)) (l List[T], err error) {
	owners, err := d.ownershipOf(r)
	if err != nil {
		return l, err
	}
	l.Own, l.Next = r.URL.Query().Get("own") != "", r.URL.Query().Get("marker")
	for range ownPages {
		var got []T
		got, l.Next, err = read(int32(PageSize-len(l.Rows)), l.Next)
		if err != nil {
			return l, err
		}
		for _, row := range got {
			if !l.Own && owners.runtimes(of, name(row)) {
				l.Hidden++
			} else {
				l.Rows = append(l.Rows, row)
			}
		}
		if l.Next == "" || len(l.Rows) == PageSize {
			break
		}
	}
	return l, nil
}

// OwnNote is what a list says of the resources of runtimes.
type OwnNote struct {
	Hidden int
	Own    bool
	Prefix string
}

// Value is the value of the query's parameter.
func (n OwnNote) Value() string {
	if n.Own {
		return "1"
	}
	return ""
}
