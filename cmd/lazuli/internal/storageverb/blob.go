package storageverb

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/blobfolder"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/sdk/blobtool"
	"github.com/lazuli-storage/lazuli/workers"
)

// NewBlob makes `lazuli blob`, which lists, reads and writes blobs.
func NewBlob() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "blob",
		Short: "List, read and write blobs, and create containers",
		Long:  `List, read and write blobs, and create containers, on Lazuli, Azurite or Azure. A blob is named container/blob, a virtual folder container/folder/.`,
	}
	cmd.AddCommand(newBlobListCommand(), newBlobCreateCommand(), newBlobPutCommand(), newBlobGetCommand(),
		newBlobCopyCommand(), newBlobStatCommand(), newBlobRemoveCommand(), newBlobMoveCommand(),
		newBlobTreeCommand(), newBlobChmodCommand(), newBlobChownCommand(), newBlobACLCommand())
	return cmd
}

// blobService adds --connection-string to cmd and returns how to open the account.
func blobService(cmd *cobra.Command) target.Opener[azblob.Client] {
	return target.ServiceFlag(cmd, "blob", func(s *workers.Storage) *azblob.Client { return s.Blobs })
}

// splitBlob parses container/blob.
func splitBlob(text string) (container, blob string, err error) {
	container, blob, _ = strings.Cut(text, "/")
	if container == "" || blob == "" {
		return "", "", console.Usagef("%q does not name a blob; want container/blob", text)
	}
	return container, blob, nil
}

func newBlobListCommand() *cobra.Command {
	var recursive bool
	cmd := &cobra.Command{Use: "ls [CONTAINER[/PREFIX]]",
		Short: "List containers, or the blobs and virtual folders of a container", Args: cobra.MaximumNArgs(1),
		Example: `  lazuli blob ls
  lazuli blob ls photos/2026/
  lazuli blob ls -r photos`}
	open := blobService(cmd)
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "list the blobs of virtual folders too")
	output := console.ListOutput(cmd)
	cmd.RunE = open.Run(func(cmd *cobra.Command, args []string, client *azblob.Client) error {
		// Container names have no slash, so the first one ends the container; the rest is a prefix and need not be a
		// folder.
		container, prefix, _ := strings.Cut(strings.Join(args, ""), "/")
		titles := []string{"SIZE", "MODIFIED", "TIER", "NAME"}
		if container == "" {
			titles = []string{"MODIFIED", "CONTAINER"}
		}
		out := output(titles...)
		show := func(e blobtool.Entry) error {
			// A virtual folder has neither; a dash keeps the columns countable for scripts.
			size, modified := "-", "-"
			if !e.Folder {
				size = fmt.Sprint(e.Size)
			}
			if !e.Modified.IsZero() {
				modified = e.Modified.UTC().Format(time.RFC3339)
			}
			if container == "" {
				return out.Add(e, modified, console.OneLine(e.Name))
			}
			return out.Add(e, size, modified, e.Tier, console.OneLine(e.Name))
		}
		out.Or("there are no blobs whose names begin with %s", strings.Join(args, ""))
		if container == "" {
			out.Or("the account has no containers; lazuli blob create CONTAINER makes one")
			return out.End(blobtool.Containers(cmd.Context(), client, "", show))
		}
		return out.End(blobtool.List(cmd.Context(), client, container, prefix, recursive, show))
	})
	return cmd
}

func newBlobPutCommand() *cobra.Command {
	var o blobtool.PutOptions
	var recursive bool
	cmd := &cobra.Command{Use: "put FILE CONTAINER/BLOB", Short: "Upload a file, or the files of a folder, as block blobs",
		Args: cobra.ExactArgs(2),
		Long: `Upload a file as a block blob; "-" is the standard input. A name that ends in a slash gets the file's name. With --recursive the file is a
folder, and its files go below container or container/prefix, with their paths in the folder as names; their number is printed.`,
		Example: `  lazuli blob put cat.jpg photos/2026/
  lazuli blob put -r pictures photos/2026 --create
  tar c folder | lazuli blob put - backups/folder.tar --create`}
	open := blobService(cmd)
	cmd.Flags().StringVar(&o.ContentType, "content-type", "", "content type (default: by the extension)")
	cmd.Flags().BoolVar(&o.Create, "create", false, "create the container if it does not exist")
	cmd.Flags().BoolVar(&o.Absent, "no-overwrite", false, "fail if the blob exists")
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "upload the files of a folder and of the folders in it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if recursive {
			client, err := open(cmd.Context())
			if err != nil {
				return err
			}
			return blobfolder.Put(cmd, client, args[0], args[1], o)
		}
		// As cp does with a folder: photos/ gets the file's name. Standard input has none.
		target := args[1]
		if strings.HasSuffix(target, "/") && args[0] != "-" {
			target += filepath.Base(args[0])
		}
		container, name, err := splitBlob(target)
		if err != nil {
			return err
		}
		client, err := open(cmd.Context())
		if err != nil {
			return err
		}
		content, size := cmd.InOrStdin(), int64(0)
		if args[0] != "-" {
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			// The size is for the progress alone. A pipe has none, and is uploaded as it comes.
			if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
				size = info.Size()
			}
			content = f
		}
		m := console.NewMeter(cmd, "uploaded", console.BytesUnit)
		defer m.End()
		err = blobtool.Put(cmd.Context(), client, container, name, m.Reader(content, size, 0), o)
		return console.Interrupted(cmd.Context(), err, "the blob was not written")
	}
	return cmd
}

func newBlobGetCommand() *cobra.Command {
	var force bool
	var recursive bool
	cmd := &cobra.Command{Use: "get CONTAINER/BLOB [FILE]", Short: "Download a blob, or all below a prefix, to files",
		Args: cobra.RangeArgs(1, 2),
		Long: `Download a blob to a file; "-" is the standard output. Without a file it gets the last part of the blob's name, in this folder. A file that
exists is kept unless --force. A failed download leaves no file. With --recursive the first argument is container or container/folder/, and the
blobs below it become files of a folder; their number is printed.`,
		Example: `  lazuli blob get photos/2026/cat.jpg
  lazuli blob get notes/todo.txt -
  lazuli blob get -r photos/2026/ pictures`, SuggestFor: []string{"cat"}}
	open := blobService(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "overwrite the file")
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "download all blobs below a prefix to a folder")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if recursive {
			client, err := open(cmd.Context())
			if err != nil {
				return err
			}
			return blobfolder.Get(cmd, client, args[0], strings.Join(args[1:], ""), force)
		}
		container, name, err := splitBlob(args[0])
		if err != nil {
			return err
		}
		client, err := open(cmd.Context())
		if err != nil {
			return err
		}
		file := path.Base(name)
		if len(args) == 2 {
			file = args[1]
		}
		// No progress and no temporary file: the bytes go out as they arrive.
		if file == "-" {
			return blobtool.Get(cmd.Context(), client, container, name, cmd.OutOrStdout(), nil)
		}
		// The name comes from the server: one such as ../x must not lead out of this folder.
		if len(args) == 1 && (!filepath.IsLocal(file) || strings.HasSuffix(name, "/")) {
			return console.Usagef("%q is not the name of a file; give one", name)
		}
		// Lstat and not Stat: a link that leads nowhere is a file that would be replaced.
		if _, err := os.Lstat(file); err == nil && !force {
			return fmt.Errorf("%s exists; --force overwrites it", file)
		}
		m := console.NewMeter(cmd, "downloaded", console.BytesUnit)
		defer m.End()
		// Through a temporary file with a rename at the end, so that a failed download leaves nothing under the name.
		err = blobfolder.Download(file, func(w io.Writer) error {
			return blobtool.Get(cmd.Context(), client, container, name, w, m.At)
		})
		return console.Interrupted(cmd.Context(), err, "no file was written")
	}
	return cmd
}

func newBlobCopyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "cp CONTAINER/BLOB CONTAINER/BLOB", Short: "Copy a blob within the account, on the server",
		Args: cobra.ExactArgs(2)}
	open := blobService(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		fromContainer, fromBlob, err := splitBlob(args[0])
		if err != nil {
			return err
		}
		target := args[1]
		if strings.HasSuffix(target, "/") {
			target += path.Base(fromBlob)
		}
		toContainer, toBlob, err := splitBlob(target)
		if err != nil {
			return err
		}
		client, err := open(cmd.Context())
		if err != nil {
			return err
		}
		return blobtool.Copy(cmd.Context(), client, fromContainer, fromBlob, toContainer, toBlob)
	}
	return cmd
}

func newBlobStatCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "stat CONTAINER/BLOB", Aliases: []string{"show"},
		Short: "Show the properties and metadata of a blob", Args: cobra.ExactArgs(1)}
	open, output := blobService(cmd), console.ReportOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		container, name, err := splitBlob(args[0])
		if err != nil {
			return err
		}
		client, err := open(cmd.Context())
		if err != nil {
			return err
		}
		list, metadata, err := blobtool.Stat(cmd.Context(), client, container, name)
		if err != nil {
			return err
		}
		object := map[string]any{"name": args[0]}
		if len(metadata) > 0 {
			object["metadata"] = metadata
		}
		for _, p := range list {
			// The tool returns texts. These two are numbers for JSON, and a script should not have to parse them out of
			// strings.
			object[console.Camel(p.Name)] = p.Value
			if p.Name == "size" || p.Name == "tags" {
				object[console.Camel(p.Name)] = json.Number(p.Value)
			}
		}
		return output(object, func(out io.Writer) error {
			tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			for _, p := range list {
				// Values of users may have control characters, which a terminal would obey.
				fmt.Fprintf(tw, "%s\t%s\n", p.Name, console.OneLine(p.Value))
			}
			for _, name := range slices.Sorted(maps.Keys(metadata)) {
				fmt.Fprintf(tw, "metadata %s\t%s\n", name, console.OneLine(*metadata[name]))
			}
			return tw.Flush()
		})
	}
	return cmd
}

func newBlobRemoveCommand() *cobra.Command {
	var recursive bool
	cmd := &cobra.Command{Use: "rm CONTAINER[/BLOB] ...", Short: "Delete blobs with their snapshots, or containers",
		Args: cobra.MinimumNArgs(1),
		Long: `Delete blobs with their snapshots, or containers with all their blobs. With --recursive an argument is a prefix, container/prefix, and all
blobs below it are deleted; their number is printed. That container stays.`,
		Example: `  lazuli blob rm photos/2026/cat.jpg
  lazuli blob rm -r photos/2026/ --yes
  lazuli blob rm photos`}
	open, confirm := blobService(cmd), console.Confirmation(cmd)
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "delete all blobs whose names begin with the argument")
	cmd.RunE = open.Run(func(cmd *cobra.Command, args []string, client *azblob.Client) error {
		for _, arg := range args {
			// A name without a slash is a container, whose loss is the largest: it asks, also beside other arguments.
			if container := strings.TrimSuffix(arg, "/"); !strings.Contains(container, "/") && !recursive {
				if err := confirm(fmt.Sprintf("Delete the container %s with all its blobs?", container)); err != nil {
					return err
				}
				if _, err := client.DeleteContainer(cmd.Context(), container, nil); err != nil {
					return err
				}
				continue
			}
			container, name, err := splitBlob(arg)
			if err != nil {
				return err
			}
			// One blob is deleted without a question, as rm does; a prefix may match more than was meant.
			if recursive {
				if err := confirm(fmt.Sprintf("Delete all blobs whose names begin with %s?", arg)); err != nil {
					return err
				}
			}
			if !recursive {
				if err := blobtool.Remove(cmd.Context(), client, container, name); err != nil {
					return err
				}
				continue
			}
			// Printed also after an error, so that it is known how far the command came.
			deleted := 0
			err = blobtool.RemoveAll(cmd.Context(), client, container, name, func(string) error { deleted++; return nil })
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s deleted\n", arg, console.Count(deleted, "blob"))
			if err != nil {
				return err
			}
		}
		return nil
	})
	return cmd
}
