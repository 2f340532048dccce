package queuesvc

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
)

// Levels of paths. Peeking has its own level: only the query parameter peekonly distinguishes it from getting.
const (
	onService  frontend.Level = "service"
	onQueue    frontend.Level = "queue"
	onMessages frontend.Level = "messages"
	onPeek     frontend.Level = "messages?peekonly=true"
	onMessage  frontend.Level = "message"
)

// Required permissions, in the letters of the SAS permission tables.
// https://learn.microsoft.com/rest/api/storageservices/create-account-sas#queue-service
// https://learn.microsoft.com/rest/api/storageservices/create-service-sas#permissions-for-a-queue
func onServiceAny(any string) auth.Need {
	return auth.Need{On: auth.OnService, Any: any, AccountSASOnly: true}
}

func onQueueAny(any string) auth.Need {
	return auth.Need{On: auth.OnContainer, Any: any, AccountSASOnly: true}
}

func onMessageAny(any string) auth.Need { return auth.Need{On: auth.OnObject, Any: any} }

var (
	serviceSettings = func(any string) auth.Need {
		return auth.Need{On: auth.OnService, Any: any, AccountSASOnly: true, Bearer: auth.Management}
	}
	readQueue    = auth.Need{On: auth.OnContainer, Any: "r"}
	accessPolicy = auth.Need{On: auth.OnContainer, Bearer: auth.AccessPolicy}
	clearing     = auth.Need{On: auth.OnObject, Any: "d", AccountSASOnly: true}
	everyone     = auth.Need{Public: auth.Everyone}
)

// Operations returns the names of the operations that the service has, as in the REST reference: "PutMessage". A name
// is there once for each of its methods.
func Operations() []string { return frontend.Names(operations) }

// operations is the operations table of the Queue service: one row per operation of the REST reference and method.
// https://learn.microsoft.com/rest/api/storageservices/queue-service-rest-api
var operations = []frontend.Operation[*Service, *call]{
	// Operations on the account.
	{Name: "ListQueues", Method: http.MethodGet, On: onService, Comp: "list", Needs: onServiceAny("l"),
		Do: (*Service).listQueues},
	{Name: "GetQueueServiceProperties", Method: http.MethodGet, On: onService, Comp: "properties", Restype: "service",
		Needs: serviceSettings("r"), Do: (*Service).getServiceProperties},
	{Name: "SetQueueServiceProperties", Method: http.MethodPut, On: onService, Comp: "properties", Restype: "service",
		Needs: serviceSettings("w"), Do: (*Service).setServiceProperties},
	{Name: "GetQueueServiceStats", Method: http.MethodGet, On: onService, Comp: "stats", Restype: "service",
		Needs: serviceSettings("r"),
		Note:  "On the secondary endpoint, which shows the primary's state.", Do: (*Service).getServiceStats},
	{Name: "GetUserDelegationKey", Method: http.MethodPost, On: onService, Comp: "userdelegationkey", Restype: "service",
		Needs: auth.Need{On: auth.OnService, Bearer: auth.DelegationKey}, Do: (*Service).getUserDelegationKey},
	{Name: "PreflightQueueRequest", Method: http.MethodOptions, On: onService, Needs: everyone, Do: (*Service).preflight},

	// Operations on queues.
	{Name: "CreateQueue", Method: http.MethodPut, On: onQueue, Needs: onQueueAny("cw"), Do: (*Service).createQueue},
	{Name: "DeleteQueue", Method: http.MethodDelete, On: onQueue, Needs: onQueueAny("d"),
		Note: "A deleted queue's name can be used again at once: QueueBeingDeleted is never answered.",
		Do:   (*Service).deleteQueue},
	{Name: "GetQueueMetadata", Method: http.MethodGet, On: onQueue, Comp: "metadata", Needs: readQueue,
		Do: (*Service).getQueueMetadata},
	{Name: "GetQueueMetadata", Method: http.MethodHead, On: onQueue, Comp: "metadata", Needs: readQueue,
		Do: (*Service).getQueueMetadata},
	{Name: "SetQueueMetadata", Method: http.MethodPut, On: onQueue, Comp: "metadata", Needs: onQueueAny("w"),
		Do: (*Service).setQueueMetadata},
	{Name: "GetQueueACL", Method: http.MethodGet, On: onQueue, Comp: "acl", Needs: accessPolicy,
		Do: (*Service).getQueueACL},
	{Name: "GetQueueACL", Method: http.MethodHead, On: onQueue, Comp: "acl", Needs: accessPolicy,
		Do: (*Service).getQueueACL},
	{Name: "SetQueueACL", Method: http.MethodPut, On: onQueue, Comp: "acl", Needs: accessPolicy,
		Do: (*Service).setQueueACL},
	{Name: "PreflightQueueRequest", Method: http.MethodOptions, On: onQueue, Needs: everyone, Do: (*Service).preflight},

	// Operations on messages.
	{Name: "PutMessage", Method: http.MethodPost, On: onMessages, Needs: onMessageAny("a"), Do: (*Service).putMessage},
	{Name: "GetMessages", Method: http.MethodGet, On: onMessages, Needs: onMessageAny("p"), Do: (*Service).getMessages},
	{Name: "PeekMessages", Method: http.MethodGet, On: onPeek, Needs: onMessageAny("r"), Do: (*Service).peekMessages},
	{Name: "ClearMessages", Method: http.MethodDelete, On: onMessages, Needs: clearing, Do: (*Service).clearMessages},
	{Name: "PreflightQueueRequest", Method: http.MethodOptions, On: onMessages, Needs: everyone, Do: (*Service).preflight},
	{Name: "UpdateMessage", Method: http.MethodPut, On: onMessage, Needs: onMessageAny("u"), Do: (*Service).updateMessage},
	{Name: "DeleteMessage", Method: http.MethodDelete, On: onMessage, Needs: onMessageAny("p"),
		Do: (*Service).deleteMessage},
	{Name: "PreflightQueueRequest", Method: http.MethodOptions, On: onMessage, Needs: everyone, Do: (*Service).preflight},
}
