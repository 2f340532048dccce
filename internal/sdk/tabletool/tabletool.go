// Package tabletool looks into tables, for people: what `lazuli table` does.
//
// It works on any account through the official SDK. What a query costs only Lazuli tells, in the headers that
// docs/tables.md describes.
package tabletool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// page is the number of entities that the service gives at once.
const page = 1000

// List returns the names of the account's tables that begin with prefix, in whatever case, in the service's order.
func List(ctx context.Context, service *aztables.ServiceClient, prefix string) ([]string, error) {
	var names []string
	pager := service.NewListTablesPager(nil)
	for pager.More() {
		got, err := pager.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, t := range got.Tables {
			if name := *t.Name; len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// QueryOptions are the options of Query. Empty ones are not sent.
type QueryOptions struct {
	// Filter and Select are $filter and $select, as the REST reference has them.
	Filter, Select string
	// Top is the number of entities that are wanted at most; 0 is all.
	Top int
}

func (o QueryOptions) list() *aztables.ListEntitiesOptions {
	l := &aztables.ListEntitiesOptions{Format: to.Ptr(aztables.MetadataFormatMinimal)}
	if o.Filter != "" {
		l.Filter = &o.Filter
	}
	if o.Select != "" {
		l.Select = &o.Select
	}
	if o.Top > 0 {
		l.Top = to.Ptr(int32(min(o.Top, page)))
	}
	return l
}

// Query calls show for each entity that matches the filter, in the order of keys, until show fails. An entity is a JSON
// object as the service sent it, with the types of properties that JSON does not show (Name@odata.type) and without the
// service's other annotations.
func Query(ctx context.Context, client *aztables.Client, o QueryOptions, show func(entity []byte) error) error {
	left := o.Top
	if left == 0 {
		left = math.MaxInt
	}
	pager := client.NewListEntitiesPager(o.list())
	for pager.More() && left > 0 {
		// The SDK re-encodes entities: whole doubles as integers, & as \u0026. Use the response itself.
		var response *http.Response
		if _, err := pager.NextPage(policy.WithCaptureResponse(ctx, &response)); err != nil {
			return err
		}
		entities, err := entitiesOf(response)
		if err != nil {
			return err
		}
		for _, e := range entities[:min(len(entities), left)] {
			if e, err = withoutAnnotations(e); err != nil {
				return err
			}
			if err := show(e); err != nil {
				return err
			}
			left--
		}
	}
	return nil
}

// entitiesOf returns the entities of a page.
func entitiesOf(response *http.Response) ([]json.RawMessage, error) {
	body, err := runtime.Payload(response)
	if err != nil {
		return nil, err
	}
	var page struct{ Value []json.RawMessage }
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, fmt.Errorf("the answer is not JSON: %w", err)
	}
	return page.Value, nil
}

// withoutAnnotations leaves out an entity's members that begin with "odata.", and keeps the others as they are and in
// their order.
func withoutAnnotations(entity json.RawMessage) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(entity))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	out := []byte("{")
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		text, _ := name.(string)
		if strings.HasPrefix(text, "odata.") || text == "Timestamp@odata.type" {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		var content string
		if json.Unmarshal(value, &content) == nil && value[0] == '"' {
			value = quoted(content) // The service escapes what is not ASCII.
		}
		out = append(append(append(out, quoted(text)...), ':'), value...)
	}
	return append(out, '}'), nil
}

// quoted returns a text as a JSON string in which only what must be escaped is.
func quoted(text string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // A string always encodes.
	return bytes.TrimSpace(b.Bytes())
}

// Explanation says what a query was and what it cost.
type Explanation struct {
	// Plan is the cost class: Nothing, PointQuery, RangeQuery, PartitionScan, PartitionRangeScan or TableScan.
	Plan string `json:"plan"`
	// Ranges are the key ranges that were visited, as text. RangeCount is their number: the service reports only the first
	// ones.
	Ranges     []string `json:"ranges"`
	RangeCount int      `json:"rangeCount"`
	// Residual says that conditions were left to check on each entity of the ranges.
	Residual bool `json:"residual"`
	// Scanned and Returned are how many entities were read, and were answered, in so many Pages, which are requests.
	Scanned  int `json:"scanned"`
	Returned int `json:"returned"`
	Pages    int `json:"pages"`
	// More reports that there are further pages.
	More bool `json:"more"`
}

// ErrNotExplained means that the service did not say what the query cost.
var ErrNotExplained = errors.New("the service does not explain queries: only Lazuli does")

// The headers of the explain mode: that of the request, and those of the answer.
const (
	headerExplain  = "X-Lazuli-Explain"
	headerPlan     = "X-Lazuli-Plan"
	headerRanges   = "X-Lazuli-Ranges"
	headerScanned  = "X-Lazuli-Entities-Scanned"
	headerReturned = "X-Lazuli-Entities-Returned"
)

// Explain runs a query, of which it takes the keys alone, and adds up what its pages cost: all of them, or as many as
// are given if that is not 0.
func Explain(ctx context.Context, client *aztables.Client, filter string, pages int) (Explanation, error) {
	var response *http.Response
	ctx = policy.WithHTTPHeader(ctx, http.Header{headerExplain: {"true"}})
	ctx = policy.WithCaptureResponse(ctx, &response)
	var e Explanation
	pager := client.NewListEntitiesPager(QueryOptions{Filter: filter, Select: "PartitionKey,RowKey"}.list())
	for pager.More() {
		if e.Pages > 0 && e.Pages == pages {
			e.More = true
			break
		}
		if _, err := pager.NextPage(ctx); err != nil {
			return e, err
		}
		if err := e.add(response.Header); err != nil {
			return e, err
		}
	}
	return e, nil
}

// add reads the headers of one page.
func (e *Explanation) add(h http.Header) error {
	plan := h.Get(headerPlan)
	if plan == "" {
		return ErrNotExplained
	}
	e.Pages++
	name, rest, _ := strings.Cut(plan, ";")
	e.Plan = name
	for part := range strings.SplitSeq(rest, ";") {
		switch key, value, _ := strings.Cut(strings.TrimSpace(part), "="); key {
		case "ranges":
			e.RangeCount, _ = strconv.Atoi(value)
		case "residual":
			e.Residual = value == "yes"
		}
	}
	if ranges := h.Get(headerRanges); ranges != "" { // older servers do not tell them
		if err := json.Unmarshal([]byte(ranges), &e.Ranges); err != nil {
			return fmt.Errorf("header %s: %w", headerRanges, err)
		}
	}
	for name, sum := range map[string]*int{headerScanned: &e.Scanned, headerReturned: &e.Returned} {
		n, err := strconv.Atoi(h.Get(name))
		if err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
		*sum += n
	}
	return nil
}
