package tablesvc

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
)

// The permissions that a caller needs. Letters are the permissions of shared access signatures: r read (query), a add,
// u update, d delete, c create, l list, w write; for a table's own token "query" is r.
// https://learn.microsoft.com/rest/api/storageservices/create-account-sas#account-sas-permissions-by-operation
var (
	needServiceRead  = auth.Need{On: auth.OnService, Any: "r", AccountSASOnly: true, Bearer: auth.Management}
	needServiceWrite = auth.Need{On: auth.OnService, Any: "w", AccountSASOnly: true, Bearer: auth.Management}
	needTableList    = auth.Need{On: auth.OnContainer, Any: "l", AccountSASOnly: true}
	needTableCreate  = auth.Need{On: auth.OnContainer, Any: "cw", AccountSASOnly: true}
	needTableDelete  = auth.Need{On: auth.OnContainer, Any: "d", AccountSASOnly: true}
	needKey          = auth.Need{On: auth.OnContainer, Bearer: auth.AccessPolicy} // a signature does not suffice
	needQuery        = auth.Need{On: auth.OnObject, Any: "r"}
	needAnyWrite     = auth.Need{On: auth.OnObject, Any: "aud"}
	needInsert       = auth.Need{On: auth.OnObject, Any: "a"}
	needUpdate       = auth.Need{On: auth.OnObject, Any: "u"}
	needUpsert       = auth.Need{On: auth.OnObject, All: "au"}
	needDelete       = auth.Need{On: auth.OnObject, Any: "d"}
	// each part is checked by its own operation's need
	needAnyOfEntity = auth.Need{On: auth.OnObject, Any: "raud", Bearer: auth.Parts}
)

var ifMatch = []string{"If-Match"}

// operations is the operations table of the Table service: a row for each form of each operation of the REST reference.
// The order has no meaning.
// https://learn.microsoft.com/rest/api/storageservices/table-service-rest-api
var operations = []frontend.Operation[*Service, *call]{
	// Set Table Service Properties and Get Table Service Properties: logging, metrics, CORS.
	{Name: "SetTableServiceProperties", Method: http.MethodPut, On: onService, Comp: "properties", Restype: "service",
		Needs: needServiceWrite, Do: (*Service).setServiceProperties},
	{Name: "GetTableServiceProperties", Method: http.MethodGet, On: onService, Comp: "properties", Restype: "service",
		Needs: needServiceRead, Do: (*Service).getServiceProperties},
	// Preflight Table Request asks whether a CORS request would be allowed.
	{Name: "PreflightTableRequest", Method: http.MethodOptions, On: onPreflight,
		Needs: auth.Need{Public: auth.Everyone}, Do: (*Service).preflight},
	// Get Table Service Stats is answered by the secondary endpoint.
	{Name: "GetTableServiceStats", Method: http.MethodGet, On: onService, Comp: "stats", Restype: "service",
		Needs: needServiceRead, Do: (*Service).getServiceStats},

	// Query Tables lists tables, or reads one.
	{Name: "QueryTables", Method: http.MethodGet, On: onTables, Needs: needTableList, Do: (*Service).queryTables},
	{Name: "QueryTables", Method: http.MethodGet, On: onOneTable, Needs: needTableList, Do: (*Service).queryOneTable},
	// Create Table.
	{Name: "CreateTable", Method: http.MethodPost, On: onTables, Needs: needTableCreate, Do: (*Service).createTable},
	// Delete Table.
	{Name: "DeleteTable", Method: http.MethodDelete, On: onOneTable, Needs: needTableDelete, Do: (*Service).deleteTable},
	// Get Table ACL and Set Table ACL: stored access policies.
	{Name: "GetTableAcl", Method: http.MethodGet, On: onTable, Comp: "acl", Needs: needKey, Do: (*Service).getTableACL},
	{Name: "SetTableAcl", Method: http.MethodPut, On: onTable, Comp: "acl", Needs: needKey, Do: (*Service).setTableACL},

	// Query Entities: of a table, of a partition, or one entity by its keys.
	{Name: "QueryEntities", Method: http.MethodGet, On: onTable, Needs: needQuery, Do: (*Service).queryEntities},
	{Name: "QueryEntities", Method: http.MethodGet, On: onPartition, Needs: needQuery, Do: (*Service).queryEntities},
	{Name: "QueryEntities", Method: http.MethodGet, On: onEntity, Needs: needQuery, Do: (*Service).queryEntity},
	// Insert Entity.
	{Name: "InsertEntity", Method: http.MethodPost, On: onTable, Needs: needInsert, Do: (*Service).insertEntity},
	// Update Entity replaces an entity. Without If-Match it is Insert Or Replace Entity.
	{Name: "UpdateEntity", Method: http.MethodPut, On: onEntity, Has: ifMatch, Needs: needUpdate,
		Do: (*Service).updateEntity},
	{Name: "UpdateEntity", Method: http.MethodPost, On: onTunnelledPut, Has: ifMatch, Needs: needUpdate,
		Do: (*Service).updateEntity},
	{Name: "InsertOrReplaceEntity", Method: http.MethodPut, On: onEntity, HasNot: ifMatch, Needs: needUpsert,
		Do: (*Service).insertOrReplaceEntity},
	{Name: "InsertOrReplaceEntity", Method: http.MethodPost, On: onTunnelledPut, HasNot: ifMatch, Needs: needUpsert,
		Do: (*Service).insertOrReplaceEntity},
	// Merge Entity keeps the properties that it does not name. Without If-Match it is Insert Or Merge Entity.
	{Name: "MergeEntity", Method: "MERGE", On: onEntity, Has: ifMatch, Needs: needUpdate, Do: (*Service).mergeEntity},
	{Name: "MergeEntity", Method: http.MethodPatch, On: onEntity, Has: ifMatch, Needs: needUpdate,
		Do: (*Service).mergeEntity},
	{Name: "MergeEntity", Method: http.MethodPost, On: onTunnelledMerge, Has: ifMatch, Needs: needUpdate,
		Do: (*Service).mergeEntity},
	{Name: "InsertOrMergeEntity", Method: "MERGE", On: onEntity, HasNot: ifMatch, Needs: needUpsert,
		Do: (*Service).insertOrMergeEntity},
	{Name: "InsertOrMergeEntity", Method: http.MethodPatch, On: onEntity, HasNot: ifMatch, Needs: needUpsert,
		Do: (*Service).insertOrMergeEntity},
	{Name: "InsertOrMergeEntity", Method: http.MethodPost, On: onTunnelledMerge, HasNot: ifMatch, Needs: needUpsert,
		Do: (*Service).insertOrMergeEntity},
	// Delete Entity.
	{Name: "DeleteEntity", Method: http.MethodDelete, On: onEntity, Needs: needDelete, Do: (*Service).deleteEntity},
	{Name: "DeleteEntity", Method: http.MethodPost, On: onTunnelledDelete, Needs: needDelete, Do: (*Service).deleteEntity},
	// Entity Group Transaction: up to 100 changes in one partition, or one query.
	{Name: "EntityGroupTransaction", Method: http.MethodPost, On: onBatch, Needs: needAnyOfEntity,
		Do: (*Service).entityGroupTransaction},
}

// Operations returns the names of the operations that the service has, as in the REST reference: "InsertEntity". A name
// is there once for each of its methods.
func Operations() []string { return frontend.Names(operations) }
