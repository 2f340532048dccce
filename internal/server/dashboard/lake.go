package dashboard

import (
	"cmp"
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
func (d *dashboard) hierarchical(r *http.Request) bool {
	account := r.PathValue("account")
	return d.Accounts.Get(account) != nil && d.Accounts.Blob(account).Hierarchical
}

// lakeClient is the client of the dfs endpoint of the account in the page's path.
func (d *dashboard) lakeClient(r *http.Request) (*lake.Client, error) {
	account, err := d.accountOf(r)
	if err != nil {
		return nil, err
	}
	if !d.hierarchical(r) {
		return nil, problem{http.StatusNotFound, "The account " + account + " has no hierarchical namespace",
			"lazuli account create NAME --hierarchical-namespace makes an account with one."}
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
	o := d.clientOptions()
	o.Transport = &http.Client{Transport: named{d.Backend().Transport(), address}}
	return lake.NewClientWithNoCredential(u.String(), &lake.ClientOptions{ClientOptions: o})
}

// lakeRow is a file or directory in the list of a directory.
type lakeRow struct {
	laketool.Entry
	Short string
}

// lakePage holds what the page of a path shows.
type lakePage struct {
	Container, Path string
	Directory       bool
	Access          laketool.Access
	List            string // the access control list, an entry a line
	Rows            []lakeRow
	Next            string
	Folders         []crumb
}

func (lakePage) template() string { return "paths" }

// paths is the page of a directory, or of a file, of a container with a hierarchical namespace: ?path=.
func (d *dashboard) paths(w http.ResponseWriter, r *http.Request, client *lake.Client) error {
	account, q := r.PathValue("account"), r.URL.Query()
	data := lakePage{Container: r.PathValue("container"), Path: strings.Trim(q.Get("path"), "/")}
	fs := client.NewFileSystemClient(data.Container)
	var err error
	if data.Access, err = laketool.GetAccess(r.Context(), client, data.Container, data.Path); err != nil {
		return err
	}
	data.List = strings.ReplaceAll(data.Access.ACL, ",", "\n")
	if data.Directory = data.Path == ""; !data.Directory {
		p, err := fs.NewDirectoryClient(data.Path).GetProperties(r.Context(), nil)
		if err != nil {
			return err
		}
		data.Directory = ptr.Value(p.ResourceType) == "directory"
	}
	if data.Directory {
		o := &filesystem.ListPathsOptions{Prefix: ptr.Text(data.Path), MaxResults: to.Ptr(int32(pageSize)),
			Marker: ptr.Text(q.Get("marker"))}
		got, err := fs.NewListPathsPager(false, o).NextPage(r.Context())
		if err != nil {
			return err
		}
		for _, p := range got.Paths {
			e := laketool.EntryOf(p)
			data.Rows = append(data.Rows, lakeRow{e, strings.TrimPrefix(strings.TrimPrefix(e.Path, data.Path), "/")})
		}
		data.Next = ptr.Value(got.Continuation)
	}
	here := link("accounts", account, "paths", data.Container)
	steps := strings.Split(data.Path, "/")
	for i, step := range steps {
		if step != "" {
			data.Folders = append(data.Folders, crumb{step, here + string(query("path", strings.Join(steps[:i+1], "/")))})
		}
	}
	return d.show(w, r, strings.Trim(data.Container+"/"+data.Path, "/"), crumbsOf(account, "containers"), data)
}

// changePaths makes, renames or deletes a directory or file, or changes its access control.
func (d *dashboard) changePaths(w http.ResponseWriter, r *http.Request, client *lake.Client) error {
	container, path, ctx := r.PathValue("container"), strings.Trim(r.URL.Query().Get("path"), "/"), r.Context()
	fs, outcome := client.NewFileSystemClient(container), "saved"
	parent, _, _ := cutLast(path)
	var err error
	switch action := r.PostFormValue("action"); action {
	case "create":
		name := strings.Trim(r.PostFormValue("name"), "/")
		outcome = "created"
		_, err = fs.NewDirectoryClient(strings.Trim(path+"/"+name, "/")).Create(ctx, &directory.CreateOptions{
			AccessConditions: &directory.AccessConditions{ModifiedAccessConditions: &directory.ModifiedAccessConditions{
				IfNoneMatch: to.Ptr(azcore.ETagAny)}}})
	case "access":
		a := laketool.Access{Owner: strings.TrimSpace(r.PostFormValue("owner")),
			Group: strings.TrimSpace(r.PostFormValue("group"))}
		list := strings.Join(strings.Fields(r.PostFormValue("acl")), ",")
		if r.PostFormValue("below") != "" {
			if a.Owner+a.Group != "" {
				err = laketool.SetAccess(ctx, client, container, path, a)
			}
			if err == nil {
				_, _, err = laketool.ChangeBelow(ctx, client, container, path, laketool.Replace, list)
			}
			break
		}
		a.ACL = list
		err = laketool.SetAccess(ctx, client, container, path, a)
	case "rename", "delete":
		if path == "" {
			return problem{http.StatusBadRequest, "A container itself cannot be renamed or deleted here",
				"The page of its properties deletes it."}
		}
		if action == "rename" {
			outcome = "renamed"
			target := strings.Trim(r.PostFormValue("to"), "/")
			if err = laketool.Move(ctx, client, container, path, target); err == nil {
				path = target
			}
			break
		}
		outcome = "deleted"
		if r.PostFormValue("kind") == "file" {
			_, err = fs.NewFileClient(path).Delete(ctx, nil)
		} else {
			_, err = fs.NewDirectoryClient(path).Delete(ctx, nil)
		}
		path = parent
	default:
		return errAction
	}
	if err != nil {
		return err
	}
	http.Redirect(w, r, link("accounts", r.PathValue("account"), "paths", container)+
		string(query("path", path, "done", outcome)), http.StatusSeeOther)
	return nil
}

// cutLast cuts a path around its last slash.
func cutLast(path string) (before, after string, found bool) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:], true
	}
	return "", path, false
}
