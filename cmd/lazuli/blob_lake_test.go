package main

import (
	"testing"

	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

func TestBlobLakeVerbs(t *testing.T) {
	t.Setenv(connstr.Variable, lazulitest.Start(t, lazulitest.WithHierarchicalNamespace()).ConnectionString())
	runBlobVerbs(t, []blobVerb{
		{"create|data", "", "", ""},
		{"put|-|data/raw/a.csv", "1,2", "", ""},
		{"put|-|data/raw/sub/b.csv", "3", "", ""},
		{"tree|data", "", "rwxr-x---  $superuser  $superuser  -  raw/\n", ""},
		{"tree|data", "", "rw-r-----  $superuser  $superuser  3    a.csv\n", ""},
		{"tree|data/raw|--json", "", `"path":"raw/sub","directory":true`, ""},
		{"mv|data/raw|data/clean", "", "", ""},
		{"get|data/clean/sub/b.csv|-", "", "3", ""},
		{"mv|data/clean/a.csv|data/clean/sub/", "", "", ""},
		{"get|data/clean/sub/a.csv|-", "", "1,2", ""},
		{"mv|data/absent|data/x", "", "", "PathNotFound"},
		{"mv|data/clean|other/clean", "", "", "within one container"},
		{"mv|data|data/x", "", "", "cannot be renamed"},
		{"chmod|0700|data/clean", "", "", ""},
		{"acl|data/clean", "", "permissions rwx------\nuser::rwx\ngroup::---\nother::---\n", ""},
		{"chmod|-r|rwxr-x--x|data/clean", "", "data/clean: 2 files, 2 directories changed\n", ""},
		{"acl|data/clean/sub/a.csv", "", "permissions rwxr-x--x\n", ""},
		{"chmod|-r|0750|data/clean", "", "", "is not of the form"},
		{"chmod|9|data/clean", "", "", "InvalidPermission"},
		{"chown|someone:staff|data/clean", "", "", ""},
		{"chown|:|data/clean", "", "", "neither"},
		{"acl|data/clean", "", "owner someone\ngroup staff\n", ""},
		{"acl|data/clean|--set|user::rwx,user:x:r-x,group::r-x,other::---", "", "", ""},
		{"acl|data/clean|--json", "", `"acl":"user::rwx,user:x:r-x,group::r-x,mask::r-x,other::---"`, ""},
		{"acl|data/clean|--modify|user:x:rwx", "", "", "need --recursive"},
		{"acl|data/clean|-r|--modify|user:x:rwx", "", "2 files, 2 directories changed\n", ""},
		{"acl|data/clean|-r|--remove|user:x", "", "2 files, 2 directories changed\n", ""},
		{"acl|data/clean|-r", "", "", "needs --set"},
		{"acl|data", "", "owner $superuser\n", ""},
		{"rm|data/clean", "", "", "DirectoryIsNotEmpty"},
		{"rm|-r|data/clean/|--yes", "", "data/clean/: 3 blobs deleted\n", ""},
		{"rm|-r|data/cl|--yes", "", "data/cl: 1 blob deleted\n", ""},
		{"tree|absent", "", "", "FilesystemNotFound"},
	})
	t.Setenv(connstr.Variable, lazulitest.Start(t).ConnectionString())
	runBlobVerbs(t, []blobVerb{
		{"create|data", "", "", ""},
		{"put|-|data/raw/a.csv", "1,2", "", ""},
		{"mv|data/raw|data/clean", "", "", "HierarchicalNamespaceNotEnabled"},
		{"acl|data/raw/a.csv", "", "", "400"},
	})
}
