package parameters

import (
	"crypto/sha256"
	"encoding/base64"
)

// Scenes of the dfs endpoint. Their accounts have a hierarchical namespace.

const otherLease = "22222222-0000-0000-0000-222222222222"

// Requests that prepare paths.
var (
	files  = req("PUT /files?resource=filesystem", "x-ms-properties: k=MQ==")
	folder = req("PUT /files/d?resource=directory")
	file   = req("PUT /files/d/f?resource=file", "x-ms-properties: k=MQ==", "x-ms-content-type: text/plain")
	second = req("PUT /files/d/g?resource=file")
	deeper = req("PUT /files/d/e/h?resource=file")
	begun  = req("PATCH /files/d/f?action=append&position=0", "= hello")
	// committed commits the five bytes of begun, and one remains that a later flush commits.
	committed  = req("PATCH /files/d/f?action=flush&position=5")
	pathLeased = req("POST /files/d/f", "x-ms-lease-action: acquire", "x-ms-lease-duration: -1",
		"x-ms-proposed-lease-id: "+lease)
	removed = req("DELETE /files/d/f")
)

// Reads of what a request may have changed.
var (
	headPath   = req("HEAD /files/d/f")
	readPath   = req("GET /files/d/f")
	pathAccess = req("HEAD /files/d/f?action=getAccessControl")
	listPaths  = req("GET /files?resource=filesystem&recursive=true")
	pathBlocks = req("GET /files/d/f?comp=blocklist&blocklisttype=all")
	listFiles  = req("GET /?resource=account")
	headFiles  = req("HEAD /files?resource=filesystem")

	// leaseReads fails unless the path has the lease.
	leaseReads = append([]request{req("POST /files/d/f", "x-ms-lease-action: renew", "x-ms-lease-id: "+lease)},
		pathReads...)
	pathReads  = []request{headPath, readPath, pathAccess, listPaths}
	filesReads = []request{headFiles, listFiles}
)

var (
	written5 = prepare(files, file, begun, committed)
	pathTree = prepare(files, folder, file, second, deeper,
		req("PATCH /files/d/f?action=setAccessControl", "x-ms-acl: user::rw-,user:named:r--,group::r--,other::---"))
)

var dfsScenes = map[string]scene{
	"Service.ListFileSystems": {prepare: prepare(files, req("PUT /other?resource=filesystem")), request: listFiles},

	"FileSystem.Create": {request: req("PUT /files?resource=filesystem"), after: filesReads},
	"FileSystem.Delete": {prepare: prepare(files), request: req("DELETE /files?resource=filesystem"),
		after: filesReads},
	"FileSystem.GetProperties": {prepare: prepare(files), request: headFiles},
	"FileSystem.SetProperties": {prepare: prepare(files),
		request: req("PATCH /files?resource=filesystem", "x-ms-properties: m=MQ=="), after: filesReads},
	"FileSystem.ListPaths": {prepare: pathTree, request: listPaths},
	"FileSystem.ListBlobHierarchySegment": {prepare: prepare(dfsRetention, files, folder, file, second, deeper, removed,
		req("DELETE /files/d/e?recursive=true")),
		request: req("GET /files?restype=container&comp=list&showonly=deleted")},

	"Path.Create": {prepare: pathTree, request: req("PUT /files/d/f?resource=file"), after: pathReads},
	"Path.AppendData": {prepare: prepare(files, file),
		request: req("PATCH /files/d/f?action=append&position=0", "= hello"), after: []request{headPath, pathBlocks}},
	"Path.FlushData": {prepare: prepare(files, file, begun, req("PATCH /files/d/f?action=append&position=5", "= !")),
		request: committed, after: append([]request{pathBlocks}, pathReads...)},
	"Path.Delete":        {prepare: pathTree, request: req("DELETE /files/d/f"), after: []request{listPaths}},
	"Path.GetProperties": {prepare: written5, request: headPath},
	"Path.Lease": {prepare: written5, request: req("POST /files/d/f", "x-ms-lease-action: acquire",
		"x-ms-lease-duration: -1", "x-ms-proposed-lease-id: "+lease), after: []request{headPath}},
	"Path.Read": {prepare: written5, request: readPath},
	"Path.SetAccessControl": {prepare: pathTree,
		request: req("PATCH /files/d/f?action=setAccessControl", "x-ms-owner: someone"), after: pathReads},
	"Path.SetAccessControlRecursive": {prepare: pathTree,
		request: req("PATCH /files/d?action=setAccessControlRecursive&mode=modify",
			"x-ms-acl: user::rwx,group::rwx,other::r--"), after: pathReads},
	"Path.SetExpiry": {prepare: written5, request: req("PUT /files/d/f?comp=expiry", "x-ms-expiry-option: NeverExpire"),
		after: pathReads},
	"Path.Undelete": {prepare: prepare(dfsRetention, files, file, removed),
		request: req("PUT /files/d/f?comp=undelete", "x-ms-undelete-source: d/f?deletionid={deletion}"), after: pathReads},
	"Path.Update": {prepare: pathTree,
		request: req("PATCH /files/d/f?action=setProperties", "x-ms-properties: m=MQ=="), after: pathReads},
}

// renames is a second scene of operations: Path Create has that name in the specification when it renames as well.
var renames = map[string]scene{
	"dfs Path.Create": {prepare: pathTree, request: req("PUT /files/d/n", "x-ms-rename-source: /files/d/f"),
		after: append(prepare(pathReads...), req("HEAD /files/d/n"))},
}

// dfsRetention keeps deleted paths. The dfs endpoint has no service properties; those of the Blob endpoint count.
var dfsRetention = req("PUT /?restype=service&comp=properties", "= "+permanent)

// dfsVariants are scenes for parameters without effect in the scene of their operation, see variants.
var dfsVariants = func() map[string]scene {
	moved := scene{service: "dfs", prepare: pathTree, request: req("PUT /files/d/n", "x-ms-rename-source: /files/d/f"),
		after: []request{listPaths}}
	into := moved // a directory that exists
	into.prepare = append(prepare(pathTree...), req("PUT /files/d/empty?resource=directory"))
	into.request = req("PUT /files/d/empty", "x-ms-rename-source: /files/d/e")
	onto := moved // a file that exists
	onto.request = req("PUT /files/d/g", "x-ms-rename-source: /files/d/f")
	leasedSource := moved
	leasedSource.prepare = append(prepare(pathTree...), pathLeased)
	leasedSource.request = moved.request.with("header x-ms-source-lease-id", lease)
	renewed := func(sc scene) scene {
		sc.service = "dfs"
		sc.prepare = append(prepare(sc.prepare...), pathLeased)
		sc.request = sc.request.with("header x-ms-lease-id", lease)
		return sc
	}
	acquiring := func(sc scene) scene {
		sc.service = "dfs"
		sc.request = sc.request.with("header x-ms-lease-action", "acquire").
			with("header x-ms-proposed-lease-id", lease).with("header x-ms-lease-duration", "-1")
		sc.after = leaseReads
		return sc
	}
	update := func(line string, parts ...string) scene {
		return scene{service: "dfs", prepare: append(prepare(pathTree...), begun,
			req("PATCH /files/d/f?action=append&position=5", "= !")), request: req(line, parts...),
			after: append([]request{pathBlocks}, pathReads...)}
	}
	newFile := dfsScenes["Path.Create"]
	newFile.service, newFile.request = "dfs", req("PUT /files/d/n?resource=file", "x-ms-proposed-lease-id: "+lease,
		"x-ms-lease-duration: -1")
	newFile.after = []request{req("HEAD /files/d/n"),
		req("POST /files/d/n", "x-ms-lease-action: renew", "x-ms-lease-id: "+lease), listPaths}
	append5 := update("PATCH /files/d/f?action=append&position=6", "= hello")
	flush := update("PATCH /files/d/f?action=flush&position=5")
	access := update("PATCH /files/d/f?action=setAccessControl", "x-ms-owner: someone")
	recursive := update("PATCH /files/d?action=setAccessControlRecursive&mode=modify",
		"x-ms-acl: user::rwx,group::rwx,other::r--")
	directory := scene{service: "dfs", prepare: pathTree, request: req("DELETE /files/d?recursive=true"),
		after: []request{listPaths}}
	plain := dfsScenes["FileSystem.ListBlobHierarchySegment"]
	plain.service = "dfs"
	plain.request = plain.request.without("query showonly")
	plain.prepare = append(prepare(plain.prepare...), req("PUT /files/d/g?comp=snapshot"),
		req("PUT /files/d/c", "x-ms-copy-source: {url}/files/d/g"),
		req("PUT /files/d/u?comp=block&blockid=MQ%3D%3D", "= u"))
	breaking := renewed(dfsScenes["Path.Lease"])
	breaking.request = req("POST /files/d/f", "x-ms-lease-action: break")
	changing := breaking
	changing.request = req("POST /files/d/f", "x-ms-lease-action: change", "x-ms-lease-id: "+lease,
		"x-ms-proposed-lease-id: "+otherLease)
	acl := scene{service: "dfs", prepare: pathTree, request: bearer(pathAccess)}
	return map[string]scene{
		"dfs Path.Create header x-ms-source-lease-id":           leasedSource,
		"dfs Path.Create header x-ms-source-":                   moved,
		"dfs Path.Create query mode":                            into,
		"dfs Path.Create (rename) query mode":                   into,
		"dfs Path.Create (rename) header If-":                   onto,
		"dfs Path.Create query continuation":                    moved,
		"dfs Path.Create header x-ms-lease-duration":            newFile,
		"dfs Path.Create header x-ms-proposed-lease-id":         newFile,
		"dfs Path.Delete query continuation":                    directory,
		"dfs Path.Delete query paginated":                       directory,
		"dfs Path.Delete query recursive":                       directory,
		"dfs Path.AppendData header x-ms-lease-duration":        acquiring(dfsScenes["Path.AppendData"]),
		"dfs Path.AppendData header x-ms-proposed-lease-id":     acquiring(dfsScenes["Path.AppendData"]),
		"dfs Path.AppendData header x-ms-lease-action":          renewed(dfsScenes["Path.AppendData"]),
		"dfs Path.FlushData header x-ms-lease-duration":         acquiring(dfsScenes["Path.FlushData"]),
		"dfs Path.FlushData header x-ms-proposed-lease-id":      acquiring(dfsScenes["Path.FlushData"]),
		"dfs Path.FlushData header x-ms-lease-action":           renewed(dfsScenes["Path.FlushData"]),
		"dfs Path.Lease header x-ms-lease-break-period":         breaking,
		"dfs Path.Lease header x-ms-lease-id":                   changing,
		"dfs Path.GetProperties query upn":                      acl,
		"dfs FileSystem.ListBlobHierarchySegment query include": plain,
		"dfs Path.Update header x-ms-acl":                       access,
		"dfs Path.Update header x-ms-owner":                     access,
		"dfs Path.Update header x-ms-group":                     access,
		"dfs Path.Update header x-ms-permissions":               access,
		"dfs Path.Update query continuation":                    recursive,
		"dfs Path.Update query forceFlag":                       recursive,
		"dfs Path.Update query maxRecords":                      recursive,
		"dfs Path.Update query mode":                            recursive,
		"dfs Path.Update query position":                        append5,
		"dfs Path.Update query close":                           flush,
		"dfs Path.Update query retainUncommittedData":           flush,
		"dfs Path.Update header x-ms-structured-body":           append5,
		"dfs Path.Update header x-ms-structured-content-length": append5,
		"dfs Path.Update header x-ms-content-md5":               flush,
	}
}()

// answering are further scenes by operation, for headers that the answers in the other scenes do not have.
var answering = func() map[string][]scene {
	everything := req("PUT /files/d/f?resource=file", "x-ms-cache-control: no-store", "x-ms-content-disposition: inline",
		"x-ms-content-encoding: x-probe", "x-ms-content-language: xx", "x-ms-encryption-context: c",
		"x-ms-expiry-option: Absolute", "x-ms-expiry-time: {later}", "x-ms-properties: k=MQ==")
	full := prepare(files, everything, begun, committed.with("header x-ms-content-md5", md5Of("hello")), pathLeased)
	keyed := func(r request) request {
		sum := sha256.Sum256([]byte(customerKey))
		return r.with("header x-ms-encryption-key", base64.StdEncoding.EncodeToString([]byte(customerKey))).
			with("header x-ms-encryption-key-sha256", base64.StdEncoding.EncodeToString(sum[:])).
			with("header x-ms-encryption-algorithm", "AES256")
	}
	encrypted := prepare(files, keyed(file), keyed(begun), keyed(committed))
	scoped := prepare(req("PUT /files?resource=filesystem", "x-ms-default-encryption-scope: scope1"), file)
	page := "&maxResults=1"
	return map[string][]scene{
		"dfs Service.ListFileSystems": {{prepare: prepare(files, req("PUT /other?resource=filesystem")),
			request: req("GET /?resource=account" + page)}},
		"dfs Path.Create": {{prepare: prepare(files), request: keyed(file)}},
		"dfs Path.AppendData": {{prepare: prepare(files, keyed(file)), request: keyed(begun)},
			{prepare: prepare(files, file), request: begun.with("header Content-MD5", md5Of("hello"))}},
		"dfs Path.FlushData": {{prepare: prepare(files, keyed(file), keyed(begun)), request: keyed(committed)}},
		"dfs Path.GetProperties": {{prepare: full, request: headPath}, {prepare: encrypted, request: keyed(headPath)},
			{prepare: scoped, request: headPath, scoped: true}},
		"dfs Path.Read": {{prepare: full, request: readPath}, {prepare: encrypted, request: keyed(readPath)},
			{prepare: full, request: readPath.with("header Range", "bytes=0-1").
				with("header x-ms-range-get-content-md5", "true")}},
		"dfs Path.Delete": {{prepare: prepare(dfsRetention, files, file), request: removed}},
	}
}()

// customerKey is a key of AES-256.
const customerKey = "0123456789abcdef0123456789abcdef"
