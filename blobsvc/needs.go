package blobsvc

import "github.com/lazuli-storage/lazuli/internal/azure/auth"

// What callers need, in the letters of the SAS permission tables.
// https://learn.microsoft.com/rest/api/storageservices/create-account-sas#blob-service
var (
	delegation = auth.Need{On: auth.OnService, Bearer: auth.DelegationKey}
	ofAccess   = auth.Need{On: auth.OnContainer, Bearer: auth.AccessPolicy}
	immutable  = auth.Need{On: auth.OnObject, Any: "i", Record: true}
	onAccount  = func(any string) auth.Need { return auth.Need{On: auth.OnService, Any: any, AccountSASOnly: true} }
	ofManagers = func(any string) auth.Need {
		return auth.Need{On: auth.OnService, Any: any, AccountSASOnly: true, Bearer: auth.NoRole}
	}
	// A batch has requests of Delete Blob and Set Blob Tier.
	accountParts         = auth.Need{On: auth.OnService, Any: "dxw", AccountSASOnly: true, Bearer: auth.Parts}
	containerParts       = auth.Need{On: auth.OnContainer, Any: "dxw", Bearer: auth.Parts}
	onThisContainer      = func(any string) auth.Need { return auth.Need{On: auth.OnContainer, Any: any} }
	onContainerByAccount = func(any string) auth.Need {
		return auth.Need{On: auth.OnContainer, Any: any,
			AccountSASOnly: true}
	}
	onObject      = func(any string) auth.Need { return auth.Need{On: auth.OnObject, Any: any} }
	onRecord      = func(any string) auth.Need { return auth.Need{On: auth.OnObject, Any: any, Record: true} }
	readBlob      = auth.Need{On: auth.OnObject, Any: "r", Public: auth.PublicBlob, Record: true}
	readContainer = auth.Need{On: auth.OnContainer, Any: "r", AccountSASOnly: true, Public: auth.PublicContainer}
	listContainer = auth.Need{On: auth.OnContainer, Any: "l", Public: auth.PublicContainer, Directory: true}
	everyone      = auth.Need{Public: auth.Everyone}
	// aboutAccount needs any permission on the named resource; no data role permits it.
	aboutAccount = func(need func(string) auth.Need) auth.Need {
		n := need("rwdxylacutfi")
		n.Bearer = auth.NoRole
		return n
	}
)
