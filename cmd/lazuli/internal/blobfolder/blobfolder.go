// Package blobfolder copies blobs to and from the files of a folder.
package blobfolder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/sdk/blobtool"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// Put uploads the files of a folder below target: a container, or container/prefix. What is neither a file nor a
// folder, such as a symbolic link, is an error before anything is uploaded.
func Put(cmd *cobra.Command, client *azblob.Client, folder, target string, o blobtool.PutOptions) error {
	container, prefix, _ := strings.Cut(strings.TrimSuffix(target, "/"), "/")
	if container == "" {
		return console.Usagef("%q does not name a container", target)
	}
	if info, err := os.Stat(folder); err != nil {
		return err
	} else if !info.IsDir() {
		return console.Usagef("%s is no folder; upload it without --recursive", folder)
	}
	// The folder is walked twice: the first walk finds what cannot be uploaded, and the total, before a blob is written.
	var files []string
	var total int64
	err := filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			// A link could lead out of the folder, or in a circle; a pipe would block.
			return fmt.Errorf("%s is neither a file nor a folder", file)
		}
		files, total = append(files, file), total+info.Size()
		return nil
	})
	if err != nil {
		return err
	}
	m := console.NewMeter(cmd, "uploaded", console.BytesUnit)
	defer m.End()
	done, before := 0, int64(0)
	// A function, so that each file is closed before the next one is opened.
	put := func(file string) error {
		name, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		content := m.Reader(f, total, before)
		if err := blobtool.Put(cmd.Context(), client, container, path.Join(prefix, filepath.ToSlash(name)), content,
			o); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		// The size now: a file that grew meanwhile was uploaded as it is now.
		info, err := f.Stat()
		before += info.Size()
		return err
	}
	for _, file := range files {
		if err = put(file); err != nil {
			break
		}
		// The container exists after the first blob.
		o.Create = false
		done++
	}
	return folderDone(cmd, m, target, console.Count(done, "blob")+" written", err)
}

// Get downloads the blobs of source, a container or container/folder/, to a folder; "" is one of the last name in
// source, in this folder.
func Get(cmd *cobra.Command, client *azblob.Client, source, folder string, force bool) error {
	container, prefix, _ := strings.Cut(source, "/")
	if container == "" {
		return console.Usagef("%q does not name a container", source)
	}
	if folder == "-" {
		return console.Usagef("give a folder: several blobs do not fit on the standard output")
	}
	if folder == "" {
		folder = path.Base(strings.TrimSuffix(source, "/"))
		if !filepath.IsLocal(folder) {
			return console.Usagef("%q is not the name of a folder; give one", folder)
		}
	}
	below := prefix[:strings.LastIndex(prefix, "/")+1] // what the names of the files leave out
	m := console.NewMeter(cmd, "downloaded", console.BytesUnit)
	defer m.End()
	done, before := 0, int64(0)
	err := blobtool.List(cmd.Context(), client, container, prefix, true, func(e blobtool.Entry) error {
		if e.Directory {
			return nil
		}
		name, err := filepath.Localize(strings.TrimPrefix(e.Name, below))
		if err != nil {
			return fmt.Errorf("%s/%s cannot be the name of a file in a folder here", container, e.Name)
		}
		file := filepath.Join(folder, name)
		if _, err := os.Lstat(file); err == nil && !force {
			return fmt.Errorf("%s exists; --force overwrites it", file)
		}
		if err := disk.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		err = Download(file, func(w io.Writer) error {
			return blobtool.Get(cmd.Context(), client, container, e.Name, w, func(n, _ int64) { m.At(before+n, 0) })
		})
		if err != nil {
			return fmt.Errorf("%s/%s: %w", container, e.Name, err)
		}
		before += e.Size
		done++
		return nil
	})
	return folderDone(cmd, m, source, console.Count(done, "file")+" written", err)
}

// folderDone prints what was done, also before an error, and returns the error of the verb.
func folderDone(cmd *cobra.Command, m *console.Meter, what, done string, err error) error {
	m.End()
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", what, done)
	return console.Interrupted(cmd.Context(), err, "run the command again to do the rest")
}

// Download writes a file beside its place, and puts it there once it is complete.
func Download(file string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".lazuli-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // Fails after the rename.
	err = errors.Join(write(f), f.Chmod(0o644), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}
