package analytics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// resolution is the length of an interval of the metrics.
type resolution uint8

const (
	hourly resolution = iota
	minutely
)

func (r resolution) length() time.Duration {
	if r == minutely {
		return time.Minute
	}
	return time.Hour
}

// tableName returns the name of the table of a service's transaction metrics.
// https://learn.microsoft.com/rest/api/storageservices/storage-analytics-metrics-table-schema
func (r resolution) tableName(svc wire.Service) string {
	name := map[wire.Service]string{wire.Blob: "Blob", wire.Queue: "Queue", wire.Table: "Table"}[svc]
	if r == minutely {
		return "$MetricsMinutePrimaryTransactions" + name
	}
	return "$MetricsHourPrimaryTransactions" + name
}

// partition returns the PartitionKey of an interval.
func partition(t time.Time) string { return t.UTC().Format("20060102T1504") }

type periodKey struct {
	account    string
	service    wire.Service
	resolution resolution
	begin      int64 // unix seconds
}

// period has the counts of one interval by RowKey: "user;All", "system;GetBlob".
type period struct {
	rows map[string]*counts
}

// counts are the sums from which a row is computed.
type counts struct {
	total, billable, ingress, egress, succeeded int64
	latency                                     time.Duration // of all requests that succeeded
	by                                          [callers][outcomes]int64

	// tried is the ETag that the stored row had before a write whose outcome is unknown, "" if there was no row; nil
	// without such a write.
	tried *azcore.ETag
}

// interval is a period whose rows are to be written.
type interval struct {
	key periodKey
	*period
	doubts int // writes whose outcome is unknown
}

const (
	// maxUnwritten bounds the intervals that wait until the tables can be written.
	maxUnwritten = 2000
	// maxDoubts is the number of times that an interval is tried again after a write of unknown outcome: a row may be
	// damaged, and others wait for it.
	maxDoubts = 100
)

// count adds a request to its interval.
func (a *Analytics) count(m *properties.Metrics, res resolution, r *wire.Request, o frontend.Outcome) {
	who := "user;"
	if r.System() {
		who = "system;"
	}
	key := periodKey{r.Account, r.Service, res, r.Now.Truncate(res.length()).Unix()}
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.periods[key]
	if p == nil {
		p = &period{rows: make(map[string]*counts)}
		a.periods[key] = p
	}
	p.add(who+"All", r, o)
	if m.IncludeAPIs {
		p.add(who+r.Operation, r, o)
	}
}

func (p *period) add(row string, r *wire.Request, o frontend.Outcome) {
	c := p.rows[row]
	if c == nil {
		c = new(counts)
		p.rows[row] = c
	}
	kind, who := outcomeOf(r, o), callerOf(o.Identity)
	c.total++
	if kind != throttlingError && kind != serverTimeoutError && kind != serverOtherError &&
		!(who == anonymously && kind != success) {
		c.billable++
	}
	c.ingress += max(r.HTTP.ContentLength, 0)
	c.egress += o.Written
	c.by[who][kind]++
	if kind == success {
		c.succeeded++
		c.latency += o.Duration
	}
}

// flushMetrics writes the intervals that are over; with all, also the current ones.
func (a *Analytics) flushMetrics(ctx context.Context, all bool) error {
	now := a.now()
	a.mu.Lock()
	over := make(map[periodKey]*period)
	for key, p := range a.periods {
		if all || now.Sub(time.Unix(key.begin, 0)) >= key.resolution.length() {
			over[key] = p
			delete(a.periods, key)
		}
	}
	a.mu.Unlock()
	a.addIdle(over, now)
	for key, p := range over {
		for _, row := range []string{"user;All", "system;All"} { // every interval has these rows
			if p.rows[row] == nil {
				p.rows[row] = new(counts)
			}
		}
		a.unwritten = append(a.unwritten, interval{key: key, period: p})
	}
	return a.writeIntervals(ctx)
}

// writeIntervals writes the rows of all intervals. When the tables are not available, the next flush tries again what
// is left.
func (a *Analytics) writeIntervals(ctx context.Context) error {
	list := a.unwritten
	a.unwritten = nil
	var errs []error
	for i, next := range list {
		err := a.writePeriod(ctx, next.key, next.period)
		if err != nil {
			errs = append(errs, fmt.Errorf("write the %s metrics of %s: %w", next.key.service, next.key.account, err))
		}
		if unknownOutcome(err) {
			next.doubts++
		}
		if unavailable(err) && next.doubts < maxDoubts {
			// The interval stays the first: others that change its rows would hide whether it was written.
			a.unwritten = append(append(a.unwritten, next), list[i+1:]...)
			break
		}
	}
	if n := len(a.unwritten) - maxUnwritten; n > 0 {
		a.unwritten = a.unwritten[n:]
		errs = append(errs, fmt.Errorf(
			"the metrics of %d intervals are lost: the tables could not be written for a long time", n))
	}
	return errors.Join(errs...)
}

// addIdle adds an empty period for the last complete interval if it had no requests.
func (a *Analytics) addIdle(over map[periodKey]*period, now time.Time) {
	for _, res := range []resolution{hourly, minutely} {
		begin := now.Truncate(res.length()).Add(-res.length())
		if !begin.After(a.written[res]) {
			continue
		}
		started := !a.written[res].IsZero()
		a.written[res] = begin
		if !started { // the interval before the process began was not observed
			continue
		}
		for _, account := range a.Accounts() {
			for _, svc := range services {
				p := a.Settings(svc, account)
				m := [...]*properties.Metrics{&p.HourMetrics, &p.MinuteMetrics}[res]
				key := periodKey{account, svc, res, begin.Unix()}
				if m.Enabled && over[key] == nil {
					over[key] = &period{rows: make(map[string]*counts)}
				}
			}
		}
	}
}

// writePeriod writes the rows of an interval, and removes them from p. It adds to the rows that an earlier process, or
// another node of a cluster, wrote for the interval.
func (a *Analytics) writePeriod(ctx context.Context, key periodKey, p *period) error {
	table := key.resolution.tableName(key.service)
	client, err := a.tables(key.account, table)
	if err != nil {
		return err
	}
	pk := partition(time.Unix(key.begin, 0))
	for row, c := range p.rows {
		if err := addToRow(ctx, client, pk, row, c); err != nil {
			return err
		}
		delete(p.rows, row)
	}
	return nil
}

// rowConflicts is the number of times that a row may be changed by other nodes while this one adds to it.
const rowConflicts = 100

// addToRow adds the sums of c to a stored row, which may not exist. If it is called again after a write whose outcome
// is unknown, it writes only if the row has not changed since. Another node may have changed it: then the sums are
// missing, but never counted twice.
func addToRow(ctx context.Context, client *aztables.Client, pk, row string, c *counts) error {
	var err error
	for range rowConflicts {
		sum := *c
		var old aztables.GetEntityResponse
		old, err = client.GetEntity(ctx, pk, row, nil)
		exists := err == nil
		switch {
		case exists:
			sum.addRow(old.Value)
		case !hasCode(err, "TableNotFound") && !hasCode(err, "ResourceNotFound"):
			return err
		}
		// An earlier call may have written without learning so. With the same tag, that write has not happened. With
		// another one, it may have, and to add again could count twice.
		before := old.ETag // "" without a row
		if c.tried != nil && *c.tried != before {
			return nil
		}
		entity, failed := json.Marshal(sum.row(pk, row))
		if failed != nil {
			return failed
		}
		if exists {
			_, err = client.UpdateEntity(ctx, entity,
				&aztables.UpdateEntityOptions{IfMatch: &old.ETag, UpdateMode: aztables.UpdateModeReplace})
		} else {
			_, err = client.AddEntity(ctx, entity, nil)
		}
		switch {
		case hasCode(err, "TableNotFound"):
			if _, failed := client.CreateTable(ctx, nil); failed != nil && !hasCode(failed, "TableAlreadyExists") {
				return failed
			}
		case unknownOutcome(err):
			c.tried = &before
			return err
		// The three codes mean that another node has changed, added or removed the row since it was read: it is read again.
		case !hasCode(err, "UpdateConditionNotSatisfied") && !hasCode(err, "EntityAlreadyExists") &&
			!hasCode(err, "ResourceNotFound"):
			return err
		}
	}
	return err
}

// row returns a row with the columns of the schema.
func (c *counts) row(pk, rk string) map[string]any {
	row := map[string]any{"PartitionKey": pk, "RowKey": rk}
	// OData writes an Int64 as a string, with its type in an annotation.
	integer := func(name string, n int64) {
		row[name], row[name+"@odata.type"] = strconv.FormatInt(n, 10), "Edm.Int64"
	}
	double := func(name string, x float64) {
		row[name], row[name+"@odata.type"] = strconv.FormatFloat(x, 'g', -1, 64), "Edm.Double"
	}
	integer("TotalRequests", c.total)
	integer("TotalBillableRequests", c.billable)
	integer("TotalIngress", c.ingress)
	integer("TotalEgress", c.egress)
	// The average is over requests that succeeded: the time of a refused one says little about the service.
	latency := 0.0
	if c.succeeded > 0 {
		latency = float64(c.latency.Microseconds()) / 1000 / float64(c.succeeded)
	}
	double("AverageE2ELatency", latency)
	double("AverageServerLatency", latency)
	var sums [outcomes]int64
	// A column for each pair of caller and outcome, and the sums over callers for the percentages below.
	for who := range callers {
		for kind := range outcomes {
			sums[kind] += c.by[who][kind]
			integer(callerPrefix[who]+outcomeNames[kind], c.by[who][kind])
		}
	}
	percent := func(n int64) float64 {
		if c.total == 0 {
			return 0
		}
		return 100 * float64(n) / float64(c.total)
	}
	double("PercentSuccess", percent(sums[success]))
	double("PercentThrottlingError", percent(sums[throttlingError]))
	double("PercentTimeoutError", percent(sums[clientTimeoutError]+sums[serverTimeoutError]))
	double("PercentServerOtherError", percent(sums[serverOtherError]))
	double("PercentClientOtherError", percent(sums[clientOtherError]))
	double("PercentAuthorizationError", percent(sums[authorizationError]))
	double("PercentNetworkError", percent(sums[networkError]))
	// By Azure's definition: billable requests, without those that the service failed.
	// https://learn.microsoft.com/azure/storage/common/monitor-storage
	availability := 100.0
	if c.billable > 0 {
		availability = 100 * float64(c.billable) / float64(c.billable+sums[serverOtherError]+sums[serverTimeoutError])
	}
	double("Availability", availability)
	return row
}

// addRow adds the sums of a stored row.
func (c *counts) addRow(stored []byte) {
	var e aztables.EDMEntity
	if json.Unmarshal(stored, &e) != nil {
		return // not a row of this server: it is replaced
	}
	integer := func(name string) int64 {
		n, _ := e.Properties[name].(aztables.EDMInt64)
		return int64(n)
	}
	c.total += integer("TotalRequests")
	c.billable += integer("TotalBillableRequests")
	c.ingress += integer("TotalIngress")
	c.egress += integer("TotalEgress")
	succeeded := int64(0)
	for who := range callers {
		for kind := range outcomes {
			n := integer(callerPrefix[who] + outcomeNames[kind])
			c.by[who][kind] += n
			if kind == success {
				succeeded += n
			}
		}
	}
	var average float64
	switch x := e.Properties["AverageServerLatency"].(type) {
	case float64:
		average = x
	case int32: // the SDK parses a double without a fraction as an int32
		average = float64(x)
	}
	c.latency += time.Duration(average * float64(succeeded) * float64(time.Millisecond))
	c.succeeded += succeeded
}

// expireMetrics deletes the rows of intervals that began more than days ago.
func (a *Analytics) expireMetrics(ctx context.Context, account string, svc wire.Service, res resolution,
	days int) error {
	client, err := a.tables(account, res.tableName(svc))
	if err != nil {
		return err
	}
	// The PartitionKey of these rows is a time, so the old ones are a range.
	filter := "PartitionKey lt '" + partition(a.now().AddDate(0, 0, -days)) + "'"
	pager := client.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: &filter})
	for pager.More() {
		answer, err := pager.NextPage(ctx)
		if hasCode(err, "TableNotFound") {
			return nil
		}
		if err != nil {
			return err
		}
		for _, stored := range answer.Entities {
			var e aztables.Entity
			if err := json.Unmarshal(stored, &e); err != nil {
				return err
			}
			if _, err := client.DeleteEntity(ctx, e.PartitionKey, e.RowKey, nil); err != nil &&
				// Another process, or the user, may have deleted the row.
				!hasCode(err, "ResourceNotFound") {
				return err
			}
		}
	}
	return nil
}

// tables returns a client for a table of an account that needs no credential.
func (a *Analytics) tables(account, table string) (*aztables.Client, error) {
	service, err := aztables.NewServiceClientWithNoCredential(a.url(wire.Table, account),
		&aztables.ClientOptions{ClientOptions: a.options})
	if err != nil {
		return nil, err
	}
	return service.NewClient(table), nil
}

func hasCode(err error, code string) bool {
	var e *azcore.ResponseError
	return errors.As(err, &e) && e.ErrorCode == code
}
