package tablepages

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/sdk/emptykey"
	"github.com/lazuli-storage/lazuli/internal/sdk/entityio"
	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
	"github.com/lazuli-storage/lazuli/internal/sdk/tabletool"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/display"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
)

//go:embed templates
var files embed.FS

// tablePages are the pages of tables and entities.
type tablePages struct{ *frame.Site }

// Add adds them to a site.
func Add(s *frame.Site) {
	d := &tablePages{s}
	s.Templates(files)
	s.Route("accounts/{account}/tables", frame.With(s.TableClient, d.tables), frame.With(s.TableClient, d.changeTables))
	s.Route("accounts/{account}/tables/{table}", frame.With(s.TableClient, d.table), frame.With(s.TableClient,
		d.changeTable))
	s.Route("accounts/{account}/tables/{table}/size", frame.With(s.TableClient, d.tableSize), nil)
	s.Route("accounts/{account}/tables/{table}/entity", frame.With(s.TableClient, d.entity), frame.With(s.TableClient,
		d.changeEntity))
	s.Route("accounts/{account}/tables/{table}/plan", frame.With(s.TableClient, d.plan), nil)
	s.Route("accounts/{account}/tables/{table}/partitions", frame.With(s.TableClient, d.partitions), nil)
}

// tablesPage holds the tables of an account.
type tablesPage struct {
	Names []string
	Next  string
	Note  frame.OwnNote
}

func (tablesPage) Template() string { return "tables" }

// tables lists the tables of an account.
func (d *tablePages) tables(w http.ResponseWriter, r *http.Request, client *aztables.ServiceClient) error {
	list, err := frame.ReadList(d.Site, r, wire.Table, func(name string) string { return name },
		func(limit int32, marker string) (names []string, next string, err error) {
			got, err := client.NewListTablesPager(&aztables.ListTablesOptions{Top: &limit,
				NextTableName: ptr.Text(marker)}).NextPage(r.Context())
			for _, t := range got.Tables {
				names = append(names, ptr.Value(t.Name))
			}
			return names, ptr.Value(got.NextTableName), err
		})
	if err != nil {
		return err
	}
	account := r.PathValue("account")
	return d.Show(w, r, "Tables", frame.CrumbsOf(account), tablesPage{Names: list.Rows, Next: list.Next,
		Note: frame.OwnNote{Hidden: list.Hidden, Own: list.Own, Prefix: ""}})
}

// changeTables creates a table, or deletes those that are chosen.
func (d *tablePages) changeTables(w http.ResponseWriter, r *http.Request, client *aztables.ServiceClient) error {
	return frame.ChangeList(w, r, "tables", func(ctx context.Context, name string) error {
		_, err := client.CreateTable(ctx, name, nil)
		return err
	}, func(ctx context.Context, name string) error {
		_, err := client.DeleteTable(ctx, name, nil)
		return err
	})
}

// cell is a property of an entity.
type cell struct{ Name, Type, Value string }

// entityRow is an entity in the grid.
type entityRow struct {
	PartitionKey, RowKey, Timestamp string
	Cells                           []cell // in the order of the grid's columns
}

// tablePage holds a page of entities of a table.
type tablePage struct {
	Table, Filter, URL string
	Problem            *frame.Problem // with the filter; nil for none
	Columns            []string
	Rows               []entityRow
	Next               string // the query of the next page
}

func (tablePage) Template() string { return "table" }

// table shows the entities of a table that a filter chooses.
func (d *tablePages) table(w http.ResponseWriter, r *http.Request, service *aztables.ServiceClient) error {
	account, name, q := r.PathValue("account"), r.PathValue("table"), r.URL.Query()
	filter := strings.TrimSpace(q.Get("filter"))
	o := &aztables.ListEntitiesOptions{Top: to.Ptr(int32(frame.PageSize)), Format: to.Ptr(aztables.MetadataFormatMinimal)}
	if filter != "" {
		o.Filter = &filter
	}
	// An empty key is a key: Has, not a comparison with "".
	if q.Has("pk") {
		o.NextPartitionKey, o.NextRowKey = to.Ptr(q.Get("pk")), to.Ptr(q.Get("rk"))
	}
	data := tablePage{Table: name, Filter: filter, URL: d.Backend().URL(wire.Table, account) + "/" + name}
	got, err := service.NewClient(name).NewListEntitiesPager(o).NextPage(r.Context())
	var e *azcore.ResponseError
	switch {
	// A wrong filter is shown above the empty table, so that it can be corrected; any other error is the page's.
	case frame.ErrAs(err, &e) && e.StatusCode == http.StatusBadRequest && filter != "":
		p := frame.Explain(err)
		data.Problem = &p
	case err != nil:
		return err
	}
	columns, rows, err := grid(got.Entities)
	if err != nil {
		return err
	}
	data.Columns, data.Rows = columns, rows
	// Either of the two continues: the first entity of a partition may have an empty row key.
	if ptr.Value(got.NextPartitionKey) != "" || ptr.Value(got.NextRowKey) != "" {
		data.Next = string(frame.Query("filter", filter, "pk", ptr.Value(got.NextPartitionKey), "rk",
			ptr.Value(got.NextRowKey)))
	}
	return d.Show(w, r, name, frame.CrumbsOf(account, "tables"), data)
}

// maxColumns bounds the columns of the grid; an entity's own page has all its properties.
const maxColumns = 30

// maxCell is the part of a value that the grid shows, in bytes.
const maxCell = 256

// grid makes a table of entities: the columns are the properties in the order in which they appear.
func grid(entities [][]byte) (columns []string, rows []entityRow, err error) {
	var all [][]cell
	for _, text := range entities {
		cells, err := cellsOf(text)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, cells)
		for _, c := range cells {
			// Entities of a table may have different properties; a thousand columns are no page.
			if !system(c.Name) && len(columns) < maxColumns && !slices.Contains(columns, c.Name) {
				columns = append(columns, c.Name)
			}
		}
	}
	for _, cells := range all {
		row := entityRow{Cells: make([]cell, len(columns))}
		for _, c := range cells {
			switch c.Name {
			case "PartitionKey":
				row.PartitionKey = c.Value
			case "RowKey":
				row.RowKey = c.Value
			case "Timestamp":
				row.Timestamp = c.Value
			default:
				// A property beyond maxColumns has no column. The page of the entity shows it.
				if i := slices.Index(columns, c.Name); i >= 0 {
					c.Value, _ = display.Clip(c.Value, maxCell)
					row.Cells[i] = c
				}
			}
		}
		rows = append(rows, row)
	}
	return columns, rows, nil
}

func system(name string) bool {
	return name == "PartitionKey" || name == "RowKey" || name == "Timestamp"
}

// cellsOf reads the properties of an entity, with their types, in the order of the text.
func cellsOf(text []byte) (cells []cell, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	types := make(map[string]string)
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var v any
		if err := dec.Decode(&v); err != nil {
			return nil, err
		}
		key, _ := name.(string)
		// An annotation may come before or after its property, so types are collected and applied at the end.
		if property, ok := strings.CutSuffix(key, "@odata.type"); ok {
			types[property] = strings.TrimPrefix(fmt.Sprint(v), "Edm.")
			continue
		}
		if strings.HasPrefix(key, "odata.") {
			continue
		}
		c := cell{Name: key, Value: fmt.Sprint(v), Type: "String"}
		switch v := v.(type) {
		case bool:
			c.Type = "Boolean"
		case json.Number:
			// Without an annotation a number is an Int32 or a Double, as the text of it says: UseNumber kept it.
			c.Type = "Int32"
			if strings.ContainsAny(v.String(), ".eEN") {
				c.Type = "Double"
			}
		}
		cells = append(cells, c)
	}
	for i, c := range cells {
		if t := types[c.Name]; t != "" {
			cells[i].Type = t
		}
	}
	return cells, nil
}

// changeTable deletes a table.
func (d *tablePages) changeTable(w http.ResponseWriter, r *http.Request, service *aztables.ServiceClient) error {
	if r.PostFormValue("action") != "delete" {
		return frame.ErrAction
	}
	_, err := service.DeleteTable(r.Context(), r.PathValue("table"), nil)
	return frame.Back(w, r, err, frame.Link("accounts", r.PathValue("account"), "tables"), "deleted")
}

// edmTypes are the types that an entity's form offers.
var edmTypes = []string{"String", "Int32", "Int64", "Double", "Boolean", "DateTime", "Guid", "Binary"}

// freeRows is the number of empty properties that the form of an entity has.
const freeRows = 3

// entityPage holds the form of an entity.
type entityPage struct {
	PK, RK          string
	New             bool
	Types           []string
	Cells, Free     []cell // the properties, and empty ones
	Timestamp, ETag string
}

func (entityPage) Template() string { return "entity" }

// entity is the form of one entity, or of a new one.
func (d *tablePages) entity(w http.ResponseWriter, r *http.Request, service *aztables.ServiceClient) error {
	account, name, q := r.PathValue("account"), r.PathValue("table"), r.URL.Query()
	data := entityPage{PK: q.Get("pk"), RK: q.Get("rk"), New: !q.Has("pk"), Types: edmTypes, Free: make([]cell, freeRows)}
	title := "New entity"
	if q.Has("pk") {
		got, err := entityio.Get(r.Context(), service.NewClient(name), q.Get("pk"), q.Get("rk"))
		if err != nil {
			return err
		}
		cells, err := cellsOf(got.JSON)
		if err != nil {
			return err
		}
		var rest []cell
		for _, c := range cells {
			if c.Name == "Timestamp" {
				data.Timestamp = c.Value
			} else if !system(c.Name) {
				rest = append(rest, c)
			}
		}
		data.Cells, data.ETag = rest, string(got.ETag)
		title = q.Get("pk") + " / " + q.Get("rk")
	}
	return d.Show(w, r, title, frame.CrumbsOf(account, "tables", name), data)
}

// changeEntity inserts, replaces or deletes an entity. What is replaced or deleted must still have the ETag that the
// form showed.
func (d *tablePages) changeEntity(w http.ResponseWriter, r *http.Request, service *aztables.ServiceClient) error {
	account, name := r.PathValue("account"), r.PathValue("table")
	client, rk := service.NewClient(name), r.PostFormValue("rk")
	ctx, partition, _ := emptykey.Address(r.Context(), r.PostFormValue("pk"))
	etag := azcore.ETag(r.PostFormValue("etag"))
	here := frame.Link("accounts", account, "tables", name)
	switch r.PostFormValue("action") {
	case "insert", "replace":
		text, err := entityJSON(partition, rk, r.PostForm["name"], r.PostForm["type"], r.PostForm["value"])
		if err != nil {
			return err
		}
		if r.PostFormValue("action") == "insert" {
			if _, err = client.AddEntity(ctx, text, nil); err == nil {
				return frame.Back(w, r, nil, here, "created")
			}
		} else if _, err = client.UpdateEntity(ctx, text,
			&aztables.UpdateEntityOptions{IfMatch: &etag, UpdateMode: aztables.UpdateModeReplace}); err == nil {
			return frame.Back(w, r, nil, here, "saved")
		}
		return err
	case "delete":
		_, err := client.DeleteEntity(ctx, partition, rk, &aztables.DeleteEntityOptions{IfMatch: &etag})
		return frame.Back(w, r, err, here, "deleted")
	}
	return frame.ErrAction
}

// entityJSON makes an entity of the form's fields. Properties without a name are left out.
func entityJSON(pk, rk string, names, types, values []string) ([]byte, error) {
	entity := map[string]any{"PartitionKey": pk, "RowKey": rk}
	for i, name := range names {
		if name = strings.TrimSpace(name); name == "" || i >= len(types) || i >= len(values) {
			continue
		}
		v := values[i]
		bad := frame.NewProblem(http.StatusBadRequest, "The value of "+name+" is not of type "+types[i], "")
		if _, twice := entity[name]; twice {
			return nil, frame.NewProblem(http.StatusBadRequest, "The property "+name+" is there twice", "")
		}
		switch types[i] {
		case "String":
			entity[name] = v
		case "Int32":
			n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 32)
			if err != nil {
				return nil, bad
			}
			entity[name] = n
		case "Boolean":
			b, err := strconv.ParseBool(strings.TrimSpace(v))
			if err != nil {
				return nil, bad
			}
			entity[name] = b
		case "Double", "Int64", "DateTime", "Guid", "Binary": // as text; the service checks it
			entity[name], entity[name+"@odata.type"] = strings.TrimSpace(v), "Edm."+types[i]
			if n, err := strconv.ParseFloat(strings.TrimSpace(v), 64); types[i] == "Double" && err == nil && n == n && n-n == 0 {
				entity[name] = n
			}
		default:
			return nil, bad
		}
	}
	return json.Marshal(entity)
}

// plan answers the script with what a filter costs: the class of the plan, and the entities that its first page reads.
func (d *tablePages) plan(w http.ResponseWriter, r *http.Request, service *aztables.ServiceClient) error {
	e, err := tabletool.Explain(r.Context(), service.NewClient(r.PathValue("table")),
		strings.TrimSpace(r.URL.Query().Get("filter")), 1)
	if err != nil {
		p := frame.Explain(err)
		return frame.WriteJSON(w, http.StatusOK, map[string]any{"error": p.What})
	}
	return frame.WriteJSON(w, http.StatusOK,
		map[string]any{"plan": e.Plan, "cost": e.Cost(), "ranges": e.Ranges, "scanned": e.Scanned, "returned": e.Returned,
			"more": e.More, "residual": e.Residual, "hints": e.Hints()})
}

// tableSize counts the entities of a table.
func (d *tablePages) tableSize(w http.ResponseWriter, r *http.Request, client *aztables.ServiceClient) error {
	pages := client.NewClient(r.PathValue("table")).NewListEntitiesPager(
		&aztables.ListEntitiesOptions{Select: to.Ptr("PartitionKey"), Format: to.Ptr(aztables.MetadataFormatNone)})
	var s frame.Size
	err := frame.Counting(r.Context(), &s, func(ctx context.Context) (bool, error) {
		got, err := pages.NextPage(ctx)
		if err != nil {
			return false, err
		}
		s.Items += len(got.Entities)
		return pages.More(), nil
	})
	if err != nil {
		return err
	}
	return frame.WriteJSON(w, http.StatusOK, s)
}
