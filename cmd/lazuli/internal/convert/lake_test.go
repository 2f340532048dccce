package convert

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// lakeConfig is a server on a folder, whose account has a hierarchical namespace.
func lakeConfig(t *testing.T, folder string) server.Config {
	t.Helper()
	key := check.Must(auth.ParseKey(auth.DevelopmentKey))(t)
	accounts := check.Must(auth.NewManagedAccounts(accountprops.Blob{Hierarchical: true},
		auth.Account{Name: auth.DevelopmentAccount, Keys: []auth.Key{key}}))(t)
	return server.Config{Location: folder, Accounts: accounts, Log: quiet}
}

// lakeNode sends requests to a server.
type lakeNode struct {
	*server.Server
	t *testing.T
}

func (n lakeNode) do(svc wire.Service, method, path, content string, headers ...string) (http.Header, string) {
	n.t.Helper()
	r := check.Must(http.NewRequestWithContext(n.t.Context(), method,
		n.InProcessURL(svc, auth.DevelopmentAccount)+path, strings.NewReader(content)))(n.t)
	r.Header.Set("x-ms-version", "2021-12-02")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer := check.Must(n.InProcess().RoundTrip(r))(n.t)
	defer answer.Body.Close()
	text := string(check.Must(io.ReadAll(answer.Body))(n.t))
	if answer.StatusCode >= 300 {
		n.t.Fatalf("%s %s: %d %s", method, path, answer.StatusCode, text)
	}
	return answer.Header, text
}

func (n lakeNode) dfs(method, path, content string, headers ...string) (http.Header, string) {
	n.t.Helper()
	return n.do(wire.DataLake, method, path, content, headers...)
}

// plant makes a tree with everything that a tree can have. undo is what restores the deleted file.
func (n lakeNode) plant() (undo string) {
	n.t.Helper()
	n.do(wire.Blob, "PUT", "/?restype=service&comp=properties", `<StorageServiceProperties><DeleteRetentionPolicy>`+
		`<Enabled>true</Enabled><Days>7</Days></DeleteRetentionPolicy></StorageServiceProperties>`)
	n.dfs("PUT", "/files?resource=filesystem", "")
	for _, path := range []string{"a/b/c/f", "a/b/g", "leased", "gone", "kept/below"} {
		n.dfs("PUT", "/files/"+path+"?resource=file", "", "x-ms-properties", "of=YmlyZHM=")
		n.dfs("PATCH", "/files/"+path+"?action=append&position=0&flush=true", "content of "+path)
	}
	n.dfs("PATCH", "/files/a?action=setAccessControl", "", "x-ms-acl",
		"user::rwx,user:ann:r-x,group::r-x,mask::r-x,other::--x,default:user::rwx,default:group::r-x,default:other::---",
		"x-ms-owner", "ann", "x-ms-group", "staff")
	n.dfs("PATCH", "/files/a/b/g?action=setAccessControl", "", "x-ms-permissions", "1640")
	n.dfs("PUT", "/files/a/inherits?resource=directory", "")
	n.dfs("POST", "/files/leased", "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1",
		"x-ms-proposed-lease-id", leaseID)
	n.dfs("PATCH", "/files/a/b/g?action=append&position=16", "not flushed")
	n.dfs("PUT", "/files/a/moved?mode=legacy", "", "x-ms-rename-source", "/files/a/b/c")
	n.dfs("PUT", "/files/expires?resource=file", "", "x-ms-expiry-option", "RelativeToNow", "x-ms-expiry-time", "86400000")
	h, _ := n.dfs("DELETE", "/files/gone", "")
	n.dfs("DELETE", "/files/kept?recursive=true", "")
	return "gone?deletionid=" + h.Get("x-ms-deletion-id")
}

var anyName = regexp.MustCompile(`"name":"([^"]*)"`)

// describe returns everything that clients can see of the tree, one line for each item.
func (n lakeNode) describe() string {
	n.t.Helper()
	_, list := n.dfs("GET", "/files?resource=filesystem&recursive=true", "")
	lines := []string{list}
	for _, m := range anyName.FindAllStringSubmatch(list, -1) {
		h, _ := n.dfs("HEAD", "/files/"+m[1], "")
		access, _ := n.dfs("HEAD", "/files/"+m[1]+"?action=getAccessControl", "")
		line := m[1]
		for _, name := range []string{"Etag", "Last-Modified", "Content-Length", "X-Ms-Properties", "X-Ms-Lease-State",
			"X-Ms-Lease-Duration", "X-Ms-Creation-Time", "X-Ms-Expiry-Time", "X-Ms-Resource-Type"} {
			line += " " + h.Get(name)
		}
		for _, name := range []string{"X-Ms-Owner", "X-Ms-Group", "X-Ms-Permissions", "X-Ms-Acl"} {
			line += " " + access.Get(name)
		}
		if h.Get("X-Ms-Resource-Type") == "file" {
			_, content := n.dfs("GET", "/files/"+m[1], "")
			line += fmt.Sprintf(" %q", content)
		}
		lines = append(lines, line)
	}
	_, deleted := n.do(wire.Blob, "GET", "/files?restype=container&comp=list&showonly=deleted", "")
	var doc struct {
		Blobs struct {
			Blob []struct{ Name, DeletionId string }
		}
	}
	check.OK(n.t, xml.Unmarshal([]byte(deleted), &doc))
	for _, b := range doc.Blobs.Blob {
		lines = append(lines, "deleted "+b.Name+" "+b.DeletionId)
	}
	_, blocks := n.do(wire.Blob, "GET", "/files/a/b/g?comp=blocklist&blocklisttype=all", "")
	return strings.Join(append(lines, blocks), "\n")
}

// use shows that what was carried over can be used: the flush of what was appended, the lease, and a deletion.
func (n lakeNode) use(undo string) {
	n.t.Helper()
	n.dfs("PATCH", "/files/a/b/g?action=flush&position=27", "")
	if _, text := n.dfs("GET", "/files/a/b/g", ""); text != "content of a/b/gnot flushed" {
		n.t.Errorf("after the flush: %q", text)
	}
	n.dfs("POST", "/files/leased", "", "x-ms-lease-action", "release", "x-ms-lease-id", leaseID)
	n.do(wire.Blob, "PUT", "/files/gone?comp=undelete", "", "x-ms-undelete-source", undo)
	if _, text := n.dfs("GET", "/files/gone", ""); text != "content of gone" {
		n.t.Errorf("what was restored has %q", text)
	}
	n.dfs("PUT", "/files/b?mode=legacy", "", "x-ms-rename-source", "/files/a")
	n.dfs("DELETE", "/files/b?recursive=true", "")
	if _, list := n.dfs("GET", "/files?resource=filesystem&recursive=true", ""); strings.Contains(list, `"b/`) {
		n.t.Errorf("after the deletion: %s", list)
	}
}

// The folder of an account with a hierarchical namespace is the same after a snapshot was restored, as a node of a
// cluster through all nodes, and on the way back: owners, lists, deleted paths, leases, expiry times, uncommitted data.
func TestConvertLake(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	one := lakeNode{check.Must(server.Start(lakeConfig(t, folder)))(t), t}
	undo := one.plant()
	was := one.describe()
	check.OK(t, one.Save(t.Context(), "before", false))
	one.use(undo)
	check.OK(t, one.Restore(t.Context(), "before"))
	compare(t, "the restored snapshot", one.describe(), was)
	check.OK(t, one.Stop(context.Background()))
	wantClean(t, folder)

	peers := freePeers(t)
	check.Must(ToNode(t.Context(), folder, Options{Node: "n1", Log: quiet}))(t)
	folders := []string{folder, t.TempDir(), t.TempDir()}
	nodes := startLakeNodes(t, folders, peers)
	for i, s := range nodes {
		compare(t, peers[i].Name, lakeNode{s, t}.describe(), was)
	}
	back := backUp(t, nodes[1])
	lakeNode{nodes[2], t}.use(undo)
	awaitContent(t, nodes[0]) // fsck reports content that a node has not copied yet
	stopNodes(nodes)
	for _, folder := range slices.Concat(folders, []string{back}) {
		wantClean(t, folder)
	}
	one = lakeNode{check.Must(server.Start(lakeConfig(t, back)))(t), t}
	compare(t, "the folder for a single server", one.describe(), was)
	one.use(undo)
	check.OK(t, one.Stop(context.Background()))
	wantClean(t, back)
}

// awaitContent waits until each node has all content of blobs.
func awaitContent(t *testing.T, s *server.Server) {
	t.Helper()
	check.Eventually(t, func() bool {
		status, err := s.ClusterStatus(t.Context())
		if err != nil {
			return false
		}
		for _, n := range status.Nodes {
			if n.Report == nil {
				return false
			}
			var log server.LogReport
			text, err := json.Marshal(n.Report.Details["blobs"])
			if err != nil || json.Unmarshal(text, &log) != nil || log.Missing == nil || *log.Missing != 0 {
				return false
			}
		}
		return len(status.Nodes) == 3
	}, "all content at all nodes")
}

func startLakeNodes(t *testing.T, folders []string, peers []peering.Peer) []*server.Server {
	t.Helper()
	return startNodesWith(t, folders, peers, func(folder string) server.Config { return lakeConfig(t, folder) })
}
