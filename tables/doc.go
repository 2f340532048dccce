// Package tables is a typed client for Azure Table storage, on top of the official SDK (aztables). It works against
// Azure, Azurite and Lazuli.
//
// A [Table] stores values of one Go type:
//
//	type Employee struct {
//		Department string // part of the key, see below
//		ID         int64
//		Name       string
//		Email      *string   `table:"Mail"`          // another name; nil is absent
//		Hired      time.Time                         // Edm.DateTime, 100 ns
//		Salary     float64   `table:",encrypt"`      // see Encryption
//		Note       string    `table:"-"`             // not stored
//		ETag       azcore.ETag                       // kept current by every read and write
//	}
//
//	func (e Employee) PartitionKey() string { return e.Department }
//	func (e Employee) RowKey() string       { return tables.Int64Key(e.ID) }
//
//	employees, err := tables.New[Employee](service, "Employees", tables.CreateIfMissing())
//	err = employees.Insert(ctx, &Employee{Department: "Sales", ID: 1, Name: "Ada"})
//	err = employees.Update(ctx, tables.Key{PartitionKey: "Sales", RowKey: tables.Int64Key(1)}, func(e *Employee) error {
//		e.Name = "Ada L."
//		return nil
//	})
//	for e, err := range employees.Query(tables.PartitionKey.Eq("Sales"), tables.RowKey.StartsWith("0")).All(ctx) { ... }
//
// # Types
//
//	Go                                         Edm
//	string, types with MarshalText             String
//	bool                                       Boolean
//	int8, int16, int32, uint8, uint16          Int32
//	int, int64, uint, uint32, uint64           Int64; larger values are an error
//	float32, float64                           Double, with NaN and the infinities
//	time.Time                                  DateTime, cut to 100 ns, from 1601 to 9999; the zero time is absent
//	uuid.UUID                                  Guid
//	[]byte                                     Binary; nil is absent
//	*T of these                                as T; nil is absent
//	any type with the option ",json"           String, the value in JSON
//
// Fields of embedded structs belong to the struct that embeds them. PartitionKey and RowKey are string fields of that
// name (or tagged so), or methods that compute them from other fields. A field of type azcore.ETag receives the entity
// tag, a time.Time called Timestamp the service's time of the last change. [New] checks all of this and names the field
// that is wrong.
//
// [Entity] is a type for entities whose properties are not known; an interface type with [WithType] reads several types
// from one table.
//
// # Queries
//
// Conditions are built from values and cannot be invalid OData. [Query.Plan] tells the cost class of a query before it
// is sent, and a query that would read a whole table, or filter a whole partition, is refused unless [Query.AllowScan]
// permits it.
//
// # Errors
//
// Requests fail with an [*Error] that names operation, table and key. It matches [ErrNotFound], [ErrExists],
// [ErrChanged] and [ErrTableNotFound], and errors.As finds the SDK's *azcore.ResponseError in it. Failed requests are
// repeated as the service client's retry policy says; this package itself repeats only [Table.Update].
package tables
