package fusedisk

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// serve serves the file system of a folder until standard input ends.
func serve(folder string) {
	faults := &faults{}
	files := filepath.Join(folder, "files")
	root, err := newRoot(files, faults)
	if err == nil {
		var server *fuse.Server
		server, err = fs.Mount(filepath.Join(folder, "mount"), root,
			&fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "fusedisk", Name: "lazuli"}})
		if err == nil {
			defer server.Unmount()
		}
	}
	if err != nil {
		fmt.Println("error", err)
		return
	}
	fmt.Println("mounted")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(faults.command(in.Text()))
	}
}

// MountSlow mounts a file system on a folder, until unmount is called: its files are in the folder files, and each sync
// takes as long as sync says. They are not synced beside that, so what the disk below does adds nothing. This process
// serves the file system, so it must not map its files; no process may use it when unmount is called.
func MountSlow(folder, files string, sync time.Duration) (unmount func() error, err error) {
	root, err := newRoot(files, &faults{sync: sync})
	if err != nil {
		return nil, fmt.Errorf("fusedisk: %w", err)
	}
	// Nothing else changes the files, so the kernel need not ask for their names and sizes again and again.
	valid := time.Minute
	server, err := fs.Mount(folder, root, &fs.Options{EntryTimeout: &valid, AttrTimeout: &valid,
		MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "slowdisk", Name: "lazuli"}})
	if err != nil {
		return nil, fmt.Errorf("fusedisk: mount %s: %w", folder, err)
	}
	return server.Unmount, nil
}

// faults decides which calls fail.
type faults struct {
	sync time.Duration // what a sync takes in place of a sync; 0 for a usual one

	mu     sync.Mutex // guards the rest
	rule   Failure    // without an error nothing fails
	failed int        // calls that failed
}

// command runs a command of [Disk] and returns the number of calls that failed before it.
func (f *faults) command(line string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	failed := f.failed
	verb, arguments, _ := strings.Cut(line, " ")
	switch verb {
	case "fail":
		var rule Failure
		var kinds string
		if _, err := fmt.Sscanf(arguments, "%d %s %d %t %q", &rule.Err, &kinds, &rule.After, &rule.Once,
			&rule.Path); err != nil {
			fmt.Fprintln(os.Stderr, "fusedisk:", err)
			os.Exit(1)
		}
		for k := range strings.SplitSeq(kinds, ",") {
			rule.Kinds = append(rule.Kinds, Kind(k))
		}
		f.rule, f.failed = rule, 0
	case "heal":
		f.rule = Failure{}
	}
	return failed
}

// within reports whether a path is a file, or in a folder.
func within(path, of string) bool {
	return of == "" || path == of || strings.HasPrefix(path, of+string(filepath.Separator))
}

// check returns the error of a call on a path.
func (f *faults) check(kind Kind, path string) syscall.Errno {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &f.rule
	if r.Err == 0 || !slices.Contains(r.Kinds, kind) || !within(path, r.Path) {
		return 0
	}
	if r.After--; r.After >= 0 || r.Once && f.failed > 0 {
		return 0
	}
	f.failed++
	return r.Err
}

// node is a file or folder.
type node struct {
	*fs.LoopbackNode
	faults *faults
}

func newRoot(path string, f *faults) (fs.InodeEmbedder, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return nil, err
	}
	data := &fs.LoopbackRoot{Path: path, Dev: uint64(st.Dev)}
	root := &node{&fs.LoopbackNode{RootData: data}, f}
	data.RootNode = root
	return root, nil
}

// WrapChild gives the faults to each file and folder that is found or created.
func (n *node) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &node{child.(*fs.LoopbackNode), n.faults}
}

func (n *node) check(kind Kind, name string) syscall.Errno {
	return n.faults.check(kind, filepath.Join(n.Path(nil), name))
}

func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode,
	fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.check(Create, name); errno != 0 {
		return nil, nil, 0, errno
	}
	inode, file, fuseFlags, errno := n.LoopbackNode.Create(ctx, name, flags&^syscall.O_DIRECT, mode, out)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	return inode, &handle{file.(*fs.LoopbackFile), inode, n.faults}, fuseFlags, 0
}

func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	file, fuseFlags, errno := n.LoopbackNode.Open(ctx, flags&^syscall.O_DIRECT) // this process' buffers are not aligned
	if errno != 0 {
		return nil, 0, errno
	}
	return &handle{file.(*fs.LoopbackFile), n.EmbeddedInode(), n.faults}, fuseFlags, 0
}

func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if errno := n.check(Create, name); errno != 0 {
		return nil, errno
	}
	return n.LoopbackNode.Mkdir(ctx, name, mode, out)
}

func (n *node) Link(ctx context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (*fs.Inode,
	syscall.Errno) {
	if errno := n.check(Create, name); errno != 0 {
		return nil, errno
	}
	return n.LoopbackNode.Link(ctx, target, name, out)
}

func (n *node) Unlink(ctx context.Context, name string) syscall.Errno {
	if errno := n.check(Remove, name); errno != 0 {
		return errno
	}
	return n.LoopbackNode.Unlink(ctx, name)
}

func (n *node) Rmdir(ctx context.Context, name string) syscall.Errno {
	if errno := n.check(Remove, name); errno != 0 {
		return errno
	}
	return n.LoopbackNode.Rmdir(ctx, name)
}

func (n *node) Rename(ctx context.Context, name string, parent fs.InodeEmbedder, to string,
	flags uint32) syscall.Errno {
	if errno := n.check(Rename, name); errno != 0 {
		return errno
	}
	return n.LoopbackNode.Rename(ctx, name, parent, to, flags)
}

func (n *node) Setattr(ctx context.Context, f fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if _, truncate := in.GetSize(); truncate {
		if errno := n.check(Truncate, ""); errno != 0 {
			return errno
		}
	}
	if h, ok := f.(*handle); ok {
		f = h.LoopbackFile
	}
	return n.LoopbackNode.Setattr(ctx, f, in, out)
}

// Fsync syncs a file or, without a handle of ours, a folder.
func (n *node) Fsync(ctx context.Context, f fs.FileHandle, flags uint32) syscall.Errno {
	if errno := n.check(Sync, ""); errno != 0 {
		return errno
	}
	if d := n.faults.sync; d > 0 {
		time.Sleep(d)
		return 0
	}
	if h, ok := f.(*handle); ok {
		return h.LoopbackFile.Fsync(ctx, flags)
	}
	return 0 // the files need to survive this process, not the machine
}

// handle is an open file.
type handle struct {
	*fs.LoopbackFile
	inode  *fs.Inode
	faults *faults
}

// PassthroughFd returns false, so that the kernel does not bypass this process.
func (h *handle) PassthroughFd() (int, bool) { return 0, false }

func (h *handle) check(kind Kind) syscall.Errno { return h.faults.check(kind, h.inode.Path(nil)) }

func (h *handle) Read(ctx context.Context, p []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	if errno := h.check(Read); errno != 0 {
		return nil, errno
	}
	return h.LoopbackFile.Read(ctx, p, offset)
}

func (h *handle) Write(ctx context.Context, p []byte, offset int64) (uint32, syscall.Errno) {
	if errno := h.check(Write); errno != 0 {
		return 0, errno
	}
	return h.LoopbackFile.Write(ctx, p, offset)
}

func (h *handle) Allocate(ctx context.Context, offset, size uint64, mode uint32) syscall.Errno {
	if errno := h.check(Write); errno != 0 {
		return errno
	}
	return h.LoopbackFile.Allocate(ctx, offset, size, mode)
}
