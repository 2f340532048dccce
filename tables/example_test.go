package tables_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/test/ownserver"
	"github.com/lazuli-storage/lazuli/tables"
)

// Employee is stored by department and number.
type Employee struct {
	Department string
	Number     int64
	Name       string
	Manager    *string
	ETag       azcore.ETag
}

// PartitionKey is the department.
func (e Employee) PartitionKey() string { return e.Department }

// RowKey sorts by number.
func (e Employee) RowKey() string { return tables.Int64Key(e.Number) }

func Example() {
	// In a program, the connection string comes from its environment.
	service, err := aztables.NewServiceClientFromConnectionString(ownserver.ConnectionString(), nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()

	employees, err := tables.New[Employee](service, "Employees", tables.CreateIfMissing())
	if err != nil {
		log.Fatal(err)
	}
	staff := []Employee{{Department: "Sales", Number: 1, Name: "Ada"}, {Department: "Sales", Number: 2, Name: "Grace"},
		{Department: "IT", Number: 1, Name: "Alan"}}
	if err := employees.Bulk(ctx, tables.BulkInsert, staff); err != nil {
		log.Fatal(err)
	}
	key, _ := employees.Key(&staff[1])
	err = employees.Update(ctx, key, func(e *Employee) error {
		manager := "Ada"
		e.Manager = &manager
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	for e, err := range employees.Query(tables.PartitionKey.Eq("Sales"), tables.RowKey.Ge(tables.Int64Key(2))).All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Name, "reports to", *e.Manager)
	}
	_, err = employees.Query(tables.Field("Name").Eq("Alan")).First(ctx)
	fmt.Println("a scan is refused:", errors.Is(err, tables.ErrScan))
	// Output:
	// Grace reports to Ada
	// a scan is refused: true
}
