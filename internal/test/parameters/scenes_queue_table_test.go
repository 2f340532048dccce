package parameters

// Requests that prepare queues and tables.
var (
	queue   = req("PUT /queue", "x-ms-meta-k: 1")
	message = req("POST /queue/messages", "= <QueueMessage><MessageText>one</MessageText></QueueMessage>")
	gotten  = req("GET /queue/messages")
	table   = req("POST /Tables", `= {"TableName":"Table"}`, "content-type: application/json",
		"accept: application/json;odata=nometadata")
	entity = req("POST /Table", `= {"PartitionKey":"p","RowKey":"r","N":1}`, "content-type: application/json",
		"accept: application/json;odata=nometadata")
	entity2 = req("POST /Table", `= {"PartitionKey":"p","RowKey":"s","N":2}`, "content-type: application/json",
		"accept: application/json;odata=nometadata")

	queueReads = []request{req("GET /queue?comp=metadata"), req("GET /queue/messages?peekonly=true&numofmessages=32"),
		req("GET /?comp=list&include=metadata")}
	tableReads = []request{req("GET /Table()", "accept: application/json;odata=nometadata"),
		req("GET /Tables", "accept: application/json;odata=nometadata")}

	properties_ = req("PUT /?restype=service&comp=properties",
		"= <StorageServiceProperties>"+cors+analytics+"</StorageServiceProperties>")
	readAll = []request{req("GET /?restype=service&comp=properties")}
)

var queueScenes = map[string]scene{
	"Service.GetProperties": {request: req("GET /?restype=service&comp=properties")},
	"Service.GetStatistics": {request: req("GET -secondary/?restype=service&comp=stats")},
	"Service.GetUserDelegationKey": {request: bearer(
		req("POST /?restype=service&comp=userdelegationkey",
			"= <KeyInfo><Start>{pastISO}</Start><Expiry>{futureISO}</Expiry></KeyInfo>"))},
	"Service.ListQueuesSegment": {prepare: prepare(queue, req("PUT /other")), request: req("GET /?comp=list")},
	"Service.SetProperties":     {request: properties_, after: readAll},
	"Queue.Create":              {request: req("PUT /queue"), after: queueReads},
	"Queue.Delete":              {prepare: prepare(queue), request: req("DELETE /queue")},
	"Queue.GetAccessPolicy":     {prepare: prepare(queue), request: req("GET /queue?comp=acl")},
	"Queue.GetProperties":       {prepare: prepare(queue), request: req("GET /queue?comp=metadata")},
	"Queue.SetAccessPolicy": {prepare: prepare(queue), request: req("PUT /queue?comp=acl", "= "+policies),
		after: []request{req("GET /queue?comp=acl")}},
	"Queue.SetMetadata": {prepare: prepare(queue), request: req("PUT /queue?comp=metadata"), after: queueReads},
	"Messages.Clear": {prepare: prepare(queue, message), request: req("DELETE /queue/messages"),
		after: queueReads},
	"Messages.Dequeue": {prepare: prepare(queue, message, message), request: gotten, after: queueReads},
	"Messages.Enqueue": {prepare: prepare(queue), request: message, after: queueReads},
	"Messages.Peek": {prepare: prepare(queue, message, message),
		request: req("GET /queue/messages?peekonly=true"), after: queueReads},
	"MessageID.Delete": {prepare: prepare(queue, message, gotten),
		request: req("DELETE /queue/messages/{messageid}?popreceipt={popreceipt}"), after: queueReads},
	"MessageID.Update": {prepare: prepare(queue, message, gotten),
		request: req("PUT /queue/messages/{messageid}?popreceipt={popreceipt}&visibilitytimeout=0",
			"= <QueueMessage><MessageText>two</MessageText></QueueMessage>"), after: queueReads},
}

const (
	json = "content-type: application/json"
	bare = "accept: application/json;odata=nometadata"
)

var tableScenes = map[string]scene{
	"Service.GetProperties": {request: req("GET /?restype=service&comp=properties")},
	"Service.GetStatistics": {request: req("GET -secondary/?restype=service&comp=stats")},
	"Service.SetProperties": {request: properties_, after: readAll},
	"Table.Create":          {request: table, after: tableReads},
	"Table.Delete":          {prepare: prepare(table), request: req("DELETE /Tables('Table')")},
	"Table.Query": {prepare: prepare(table,
		req("POST /Tables", `= {"TableName":"Other"}`, json, bare)), request: req("GET /Tables", bare)},
	"Table.GetAccessPolicy": {prepare: prepare(table), request: req("GET /Table?comp=acl")},
	"Table.SetAccessPolicy": {prepare: prepare(table),
		request: req("PUT /Table?comp=acl", "= "+policies), after: []request{req("GET /Table?comp=acl")}},
	"Table.InsertEntity": {prepare: prepare(table), request: entity, after: tableReads},
	"Table.UpdateEntity": {prepare: prepare(table, entity),
		request: req("PUT /Table(PartitionKey='p',RowKey='r')", "if-match: *", json, bare, `= {"N":3}`), after: tableReads},
	"Table.MergeEntity": {prepare: prepare(table, entity),
		request: req("PATCH /Table(PartitionKey='p',RowKey='r')", "if-match: *", json, bare, `= {"M":3}`), after: tableReads},
	"Table.DeleteEntity": {prepare: prepare(table, entity),
		request: req("DELETE /Table(PartitionKey='p',RowKey='r')", "if-match: *", bare), after: tableReads},
	"Table.QueryEntities": {prepare: prepare(table, entity, entity2),
		request: req("GET /Table()", bare)},
	"Table.QueryEntityWithPartitionAndRowKey": {prepare: prepare(table, entity),
		request: req("GET /Table(PartitionKey='p',RowKey='r')", bare)},
}
