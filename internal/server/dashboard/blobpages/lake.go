package blobpages

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/directory"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/filesystem"
	lake "github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/service"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/sdk/laketool"
	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
)

// named sends requests for a host name to an address: the SDK finds the Blob endpoint of an account by replacing "dfs"
// in the name.
type named struct {
	http.RoundTripper
	address string
}

// RoundTrip implements http.RoundTripper.
func (n named) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.Host, out.URL.Host = r.URL.Host, n.address
	return n.RoundTripper.RoundTrip(out)
}

// hierarchical reports whether the account in the page's path has a hierarchical namespace.
func (d *blobPages) hierarchical(r *http.Request) bool {
	account := r.PathValue("account")
	return d.Accounts.Get(account) != nil && d.Accounts.Blob(account).Hierarchical
}

// lakeClient is the client of the dfs endpoint of the account in the page's path.
func (d *blobPages) lakeClient(r *http.Request) (*lake.Client, error) {
	account, err := d.AccountOf(r)
	if err != nil {
		return nil, err
	}
	if !d.hierarchical(r) {
		return nil, frame.NewProblem(http.StatusNotFound, "The account "+account+" has no hierarchical namespace",
			"lazuli account create NAME --hierarchical-namespace makes an account with one.")
	}
	// The Blob service answers to the name, too.
	u, err := url.Parse(cmp.Or(d.Backend().URL(wire.DataLake, account), d.Backend().URL(wire.Blob, account)))
	if err != nil {
		return nil, err
	}
	address := u.Host
	u.Host, u.Path = account+".dfs.localhost", ""
	if port := (&url.URL{Host: address}).Port(); port != "" {
		u.Host += ":" + port
	}
	o := d.ClientOptions()
	o.Transport = &http.Client{Transport: named{d.Backend().Transport(), address}}
	return lake.NewClientWithNoCredential(u.String(), &lake.ClientOptions{ClientOptions: o})
}

// lakeRow is a file or directory in the list of a directory.
type lakeRow struct {
	laketool.Entry
	Short string
}

// lakePage holds a directory of a container with a hierarchical namespace.
type lakePage struct {
	Container, Path string
	Folders         []frame.Crumb
	Rows            []lakeRow
	Next            string
	Lake            *lakeAccess
	Props           *containerProperties // of the root directory
}

func (lakePage) Template() string { return "paths" }

// lakeAccess is the part of a page that shows and changes who can use a file or directory, and its name.
type lakeAccess struct {
	Container, Path string
	Directory       bool
	Access          laketool.Access
	List            string // the access control list, an entry a line: the one that was entered if it was refused
	To              string // the new name, likewise
	Problem         *frame.Problem
}

// lakeAccessOf reads the access control of a path. A form that was refused is shown with what was entered.
func lakeAccessOf(r *http.Request, client *lake.Client, path string, refused *frame.Problem) (*lakeAccess, error) {
	a := &lakeAccess{Container: r.PathValue("container"), Path: path, To: path, Problem: refused, Directory: path == ""}
	var err error
	if a.Access, err = laketool.GetAccess(r.Context(), client, a.Container, path); err != nil {
		return nil, err
	}
	a.List = strings.ReplaceAll(a.Access.ACL, ",", "\n")
	if refused != nil {
		switch r.PostFormValue("action") {
		case "access":
			a.List = r.PostFormValue("acl")
		case "owner":
			a.Access.Owner, a.Access.Group = r.PostFormValue("owner"), r.PostFormValue("group")
			a.Access.Permissions = r.PostFormValue("permissions")
		case "rename":
			a.To = r.PostFormValue("to")
		}
	}
	return a, nil
}

// paths shows a directory of a container with a hierarchical namespace: ?path=. The page of a file is that of its blob.
func (d *blobPages) paths(w http.ResponseWriter, r *http.Request, client *lake.Client) error {
	path := strings.Trim(r.URL.Query().Get("path"), "/")
	file, err := isFile(r, client, path)
	if err != nil {
		return err
	}
	if file {
		http.Redirect(w, r, frame.Link("accounts", r.PathValue("account"), "blob", r.PathValue("container"))+
			string(frame.Query("name", path, "done", r.URL.Query().Get("done"))), http.StatusSeeOther)
		return nil
	}
	return d.showDirectory(w, r, client, path, nil)
}

// isFile reports whether a path is that of a file.
func isFile(r *http.Request, client *lake.Client, path string) (bool, error) {
	if path == "" {
		return false, nil
	}
	p, err := client.NewFileSystemClient(r.PathValue("container")).NewDirectoryClient(path).GetProperties(r.Context(), nil)
	return ptr.Value(p.ResourceType) != "directory", err
}

// showDirectory shows a directory, with why a form of it was refused.
func (d *blobPages) showDirectory(w http.ResponseWriter, r *http.Request, client *lake.Client, path string,
	refused *frame.Problem) error {
	account := r.PathValue("account")
	data := lakePage{Container: r.PathValue("container"), Path: path}
	var err error
	if data.Lake, err = lakeAccessOf(r, client, path, refused); err != nil {
		return err
	}
	data.Lake.Directory = true
	// The root has the metadata of the container, which only the Blob endpoint shows.
	if path == "" {
		blobs, err := d.BlobClient(r)
		if err != nil {
			return err
		}
		if data.Props, err = containerPropertiesOf(r.Context(), blobs, data.Container); err != nil {
			return err
		}
	}
	o := &filesystem.ListPathsOptions{Prefix: ptr.Text(path), MaxResults: to.Ptr(int32(frame.PageSize)),
		Marker: ptr.Text(r.URL.Query().Get("marker"))}
	got, err := client.NewFileSystemClient(data.Container).NewListPathsPager(false, o).NextPage(r.Context())
	if err != nil {
		return err
	}
	for _, p := range got.Paths {
		e := laketool.EntryOf(p)
		data.Rows = append(data.Rows, lakeRow{e, strings.TrimPrefix(strings.TrimPrefix(e.Path, path), "/")})
	}
	data.Next = ptr.Value(got.Continuation)
	here, steps := frame.Link("accounts", account, "paths", data.Container), strings.Split(path, "/")
	for i, step := range steps {
		if step != "" {
			data.Folders = append(data.Folders, frame.Crumb{Name: step, URL: here + string(frame.Query("path",
				strings.Join(steps[:i+1], "/")))})
		}
	}
	status := http.StatusOK
	// A refused form comes back with its own status: scripts see the refusal, and people see their input again.
	if refused != nil {
		status = refused.Status
	}
	return d.ShowStatus(w, r, status, strings.Trim(data.Container+"/"+path, "/"), frame.CrumbsOf(account, "containers"),
		data)
}

// changePaths makes, renames or deletes a directory or file, or changes its access control. What the service refuses
// is shown on the page of the path, with what was entered.
func (d *blobPages) changePaths(w http.ResponseWriter, r *http.Request, client *lake.Client) error {
	path := strings.Trim(r.URL.Query().Get("path"), "/")
	next, outcome, err := changePath(r, client, path)
	var refused *azcore.ResponseError
	if frame.ErrAs(err, &refused) && refused.StatusCode/100 == 4 || errors.Is(err, laketool.ErrFailures) {
		p := frame.Explain(err)
		if refused == nil {
			p = frame.NewProblem(http.StatusConflict, err.Error(), "The others have the new list.")
		}
		if file, err := isFile(r, client, path); err != nil {
			return err
		} else if file {
			return d.showBlob(w, r, path, &p)
		}
		return d.showDirectory(w, r, client, path, &p)
	}
	if err != nil {
		return err
	}
	http.Redirect(w, r, frame.Link("accounts", r.PathValue("account"), "paths", r.PathValue("container"))+
		string(frame.Query("path", next, "done", outcome)), http.StatusSeeOther)
	return nil
}

// changePath does what a form asks for. It returns the path of the page that is shown next, and the message on it.
func changePath(r *http.Request, client *lake.Client, path string) (next, outcome string, err error) {
	container, ctx := r.PathValue("container"), r.Context()
	fs := client.NewFileSystemClient(container)
	remove := func(path string, directory bool) error {
		if directory {
			_, err := fs.NewDirectoryClient(path).Delete(ctx, nil)
			return err
		}
		_, err := fs.NewFileClient(path).Delete(ctx, nil)
		return err
	}
	switch action := r.PostFormValue("action"); action {
	case "create":
		name := strings.Trim(r.PostFormValue("name"), "/")
		_, err = fs.NewDirectoryClient(strings.Trim(path+"/"+name, "/")).Create(ctx, &directory.CreateOptions{
			AccessConditions: &directory.AccessConditions{ModifiedAccessConditions: &directory.ModifiedAccessConditions{
				IfNoneMatch: to.Ptr(azcore.ETagAny)}}})
		return path, "created", err
	case "owner":
		now, err := laketool.GetAccess(ctx, client, container, path)
		if err != nil {
			return "", "", err
		}
		changed := func(field, now string) string { // "": as it is
			if v := strings.TrimSpace(r.PostFormValue(field)); v != now {
				return v
			}
			return ""
		}
		a := laketool.Access{Owner: changed("owner", now.Owner), Group: changed("group", now.Group),
			Permissions: changed("permissions", now.Permissions)}
		if a == (laketool.Access{}) {
			return path, "saved", nil
		}
		return path, "saved", laketool.SetAccess(ctx, client, container, path, a)
	case "access":
		list := strings.Join(strings.Fields(r.PostFormValue("acl")), ",")
		if r.PostFormValue("below") != "" {
			_, _, err = laketool.ChangeBelow(ctx, client, container, path, laketool.Replace, list)
			return path, "saved", err
		}
		return path, "saved", laketool.SetAccess(ctx, client, container, path, laketool.Access{ACL: list})
	case "deleteChosen": // the names of directories end with a slash
		return path, "deleted", frame.RemoveChosen(r, func(name string) error {
			return remove(strings.TrimSuffix(name, "/"), strings.HasSuffix(name, "/"))
		})
	case "rename", "delete":
		if path == "" {
			return "", "", frame.NewProblem(http.StatusBadRequest, "A container itself cannot be renamed or deleted here",
				"Its properties, below the list, delete it.")
		}
		if action == "rename" {
			target := strings.Trim(r.PostFormValue("to"), "/")
			return target, "renamed", laketool.Move(ctx, client, container, path, target)
		}
		parent, _, _ := cutLast(path)
		return parent, "deleted", remove(path, r.PostFormValue("kind") != "file")
	}
	return "", "", frame.ErrAction
}

// cutLast cuts a path around its last slash.
func cutLast(path string) (before, after string, found bool) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:], true
	}
	return "", path, false
}
