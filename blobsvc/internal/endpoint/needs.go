package endpoint

import "github.com/lazuli-storage/lazuli/internal/azure/auth"

// What callers need, in the letters of the SAS permission tables.
// https://learn.microsoft.com/rest/api/storageservices/create-account-sas#blob-service
var (
	Delegation = auth.Need{On: auth.OnService, Bearer: auth.DelegationKey}
	OfAccess   = auth.Need{On: auth.OnContainer, Bearer: auth.AccessPolicy}
	Immutable  = auth.Need{On: auth.OnObject, Any: "i", Record: true}
	OnAccount  = func(any string) auth.Need { return auth.Need{On: auth.OnService, Any: any, AccountSASOnly: true} }
	OfManagers = func(any string) auth.Need {
		return auth.Need{On: auth.OnService, Any: any, AccountSASOnly: true, Bearer: auth.Management}
	}
	// A batch has requests of Delete Blob and Set Blob Tier.
	AccountParts         = auth.Need{On: auth.OnService, Any: "dxw", AccountSASOnly: true, Bearer: auth.Parts}
	ContainerParts       = auth.Need{On: auth.OnContainer, Any: "dxw", Bearer: auth.Parts}
	OnThisContainer      = func(any string) auth.Need { return auth.Need{On: auth.OnContainer, Any: any} }
	OnContainerByAccount = func(any string) auth.Need {
		return auth.Need{On: auth.OnContainer, Any: any,
			AccountSASOnly: true}
	}
	// FindBlobs is of Find Blobs by Tags, which names the account and for which an account SAS is for objects.
	FindBlobs     = auth.Need{On: auth.OnObject, Any: "f", AccountSASOnly: true}
	OnObject      = func(any string) auth.Need { return auth.Need{On: auth.OnObject, Any: any} }
	OnRecord      = func(any string) auth.Need { return auth.Need{On: auth.OnObject, Any: any, Record: true} }
	ReadBlob      = auth.Need{On: auth.OnObject, Any: "r", Public: auth.PublicBlob, Record: true}
	ReadContainer = auth.Need{On: auth.OnContainer, Any: "r", AccountSASOnly: true, Public: auth.PublicContainer}
	ListContainer = auth.Need{On: auth.OnContainer, Any: "l", Public: auth.PublicContainer, Directory: true}
	Everyone      = auth.Need{Public: auth.Everyone}
	// AboutAccount needs any permission on the named resource; no data role permits it.
	AboutAccount = func(need func(string) auth.Need) auth.Need {
		n := need("rwdxylacutfi")
		n.Bearer = auth.Management
		return n
	}
)
