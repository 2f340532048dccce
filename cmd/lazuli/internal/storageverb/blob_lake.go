package storageverb

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/service"
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/sdk/laketool"
)

// lakeService adds --connection-string to cmd and returns how to open the dfs endpoint of the account.
func lakeService(cmd *cobra.Command) target.Opener[service.Client] {
	connection := target.AccountFlag(cmd)
	return func(context.Context) (*service.Client, error) {
		text, err := connection()
		if err != nil {
			return nil, err
		}
		s, err := connstr.Parse(text)
		if err != nil {
			return nil, console.Usage(err)
		}
		o := connstr.Options{}
		o.Retry.ShouldRetry = target.WorthARetry
		c, err := s.Lake(o)
		if err != nil {
			return nil, console.Usage(err)
		}
		return c, nil
	}
}

// splitPath parses filesystem/path; the path of the root directory is "".
func splitPath(text string) (fs, path string, err error) {
	fs, path, _ = strings.Cut(text, "/")
	if fs == "" {
		return "", "", console.Usagef("%q does not name a path; want container/path", text)
	}
	return fs, strings.Trim(path, "/"), nil
}

const hierarchicalOnly = " It needs an account with a hierarchical namespace."

func newBlobMoveCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "mv CONTAINER/PATH CONTAINER/PATH", Short: "Rename a file or directory, in one change",
		Args: cobra.ExactArgs(2),
		Long: `Rename a file or directory within its container, in one atomic change whatever is below it. A target that ends in a slash is the directory to move
into.` + hierarchicalOnly}
	open := lakeService(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		fs, from, err := splitPath(args[0])
		if err != nil {
			return err
		}
		other, to, err := splitPath(args[1])
		switch {
		case err != nil:
			return err
		// The service can rename within a container only; a move by copy and delete would not be the one atomic change that
		// the help promises.
		case other != fs:
			return console.Usagef("mv moves within one container; copy to %s with cp", other)
		case strings.HasSuffix(args[1], "/"):
			// As mv does: the last element keeps its name below the directory.
			to = strings.Trim(to+"/"+from[strings.LastIndexByte(from, '/')+1:], "/")
		}
		if from == "" || to == "" {
			return console.Usagef("a container itself cannot be renamed")
		}
		client, err := open(cmd.Context())
		if err != nil {
			return err
		}
		return laketool.Move(cmd.Context(), client, fs, from, to)
	}
	return cmd
}

func newBlobTreeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "tree CONTAINER[/DIRECTORY]",
		Short: "List everything below a directory, with owners and permissions", Args: cobra.ExactArgs(1),
		Long: "List everything below a directory, with owners and permissions." + hierarchicalOnly}
	open, output := lakeService(cmd), console.ListOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		fs, dir, err := splitPath(args[0])
		if err != nil {
			return err
		}
		client, err := open(cmd.Context())
		if err != nil {
			return err
		}
		out := output().Or("there is nothing below %s", args[0])
		return out.End(laketool.Tree(cmd.Context(), client, fs, dir, func(e laketool.Entry) error {
			name, size := e.Path, fmt.Sprint(e.Size)
			if e.Directory {
				// The slash tells a directory from a file without extension; it is dropped again for the count of levels.
				name, size = name+"/", "-"
			}
			below := strings.TrimPrefix(name, dir)
			depth := strings.Count(strings.Trim(below, "/"), "/")
			last := name[strings.LastIndexByte(strings.TrimSuffix(name, "/"), '/')+1:]
			shown := strings.Repeat("  ", depth) + console.OneLine(last)
			return out.Add(e, e.Permissions, e.Owner, e.Group, size, shown)
		}))
	}
	return cmd
}

func newBlobChmodCommand() *cobra.Command {
	var recursive bool
	cmd := &cobra.Command{Use: "chmod PERMISSIONS CONTAINER/PATH ...", Short: "Change permissions",
		Args:    cobra.MinimumNArgs(2),
		Long:    "Change permissions: octal, such as 0750, or symbolic, such as rwxr-x---." + hierarchicalOnly,
		Example: `  lazuli blob chmod 0750 data/raw`}
	open := lakeService(cmd)
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false,
		"replace the lists of everything below a directory as well; needs the symbolic form")
	cmd.RunE = open.Run(func(cmd *cobra.Command, args []string, client *service.Client) error {
		for _, arg := range args[1:] {
			fs, name, err := splitPath(arg)
			if err != nil {
				return err
			}
			// Recursion changes access control lists, and an octal mode has no text for their entries.
			if recursive {
				p := args[0]
				if len(p) != 9 {
					return console.Usagef("%q is not of the form rwxr-x---", p)
				}
				list := "user::" + p[:3] + ",group::" + p[3:6] + ",other::" + p[6:]
				if err := changeBelow(cmd, client, fs, name, laketool.Modify, list); err != nil {
					return err
				}
				continue
			}
			// Without -r the service itself parses the permissions, octal or symbolic, with the sticky bit.
			if err := laketool.SetAccess(cmd.Context(), client, fs, name, laketool.Access{Permissions: args[0]}); err != nil {
				return err
			}
		}
		return nil
	})
	return cmd
}

// changeBelow changes lists and prints how many.
func changeBelow(cmd *cobra.Command, client *service.Client, fs, name string, how laketool.Change, list string) error {
	files, directories, err := laketool.ChangeBelow(cmd.Context(), client, fs, name, how, list)
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, %s changed\n", fs+"/"+name, console.Count(files, "file"),
		console.Count(directories, "directory"))
	return err
}

func newBlobChownCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "chown OWNER[:GROUP] CONTAINER/PATH ...", Short: "Change the owner, or the owning group",
		Args: cobra.MinimumNArgs(2),
		Long: "Change the owner, or with :group the owning group. Both are object IDs, or $superuser." + hierarchicalOnly}
	open := lakeService(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		owner, group, _ := strings.Cut(args[0], ":")
		// ":" alone would be sent as an empty request, which changes nothing and succeeds.
		if owner == "" && group == "" {
			return console.Usagef("%q names neither an owner nor a group", args[0])
		}
		client, err := open(cmd.Context())
		if err != nil {
			return err
		}
		for _, arg := range args[1:] {
			fs, name, err := splitPath(arg)
			if err != nil {
				return err
			}
			if err := laketool.SetAccess(cmd.Context(), client, fs, name,
				laketool.Access{Owner: owner, Group: group}); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

func newBlobACLCommand() *cobra.Command {
	var set, modify, remove string
	var recursive bool
	cmd := &cobra.Command{Use: "acl CONTAINER/PATH", Short: "Show or change an access control list",
		Args: cobra.ExactArgs(1),
		Long: "Show the access control list of a path with its owner and group, or change it." + hierarchicalOnly,
		Example: `  lazuli blob acl data/raw
  lazuli blob acl data/raw --set user::rwx,user:OBJECT-ID:r-x,group::r-x,other::---
  lazuli blob acl data/raw -r --modify default:user:OBJECT-ID:r-x,user:OBJECT-ID:r-x
  lazuli blob acl data/raw -r --remove user:OBJECT-ID`}
	open, output := lakeService(cmd), console.ReportOutput(cmd)
	f := cmd.Flags()
	f.StringVar(&set, "set", "", "replace the list")
	f.StringVar(&modify, "modify", "", "add or change entries; needs --recursive")
	f.StringVar(&remove, "remove", "", "remove entries; needs --recursive")
	f.BoolVarP(&recursive, "recursive", "r", false, "change everything below a directory as well")
	cmd.MarkFlagsMutuallyExclusive("set", "modify", "remove")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		fs, name, err := splitPath(args[0])
		if err != nil {
			return err
		}
		// The service has these two for a directory with what is below it alone.
		if (modify != "" || remove != "") && !recursive {
			return console.Usagef("--modify and --remove need --recursive")
		}
		client, err := open(cmd.Context())
		if err != nil {
			return err
		}
		switch {
		case modify != "":
			return changeBelow(cmd, client, fs, name, laketool.Modify, modify)
		case remove != "":
			return changeBelow(cmd, client, fs, name, laketool.Remove, remove)
		case set != "" && recursive:
			return changeBelow(cmd, client, fs, name, laketool.Replace, set)
		case set != "":
			return laketool.SetAccess(cmd.Context(), client, fs, name, laketool.Access{ACL: set})
		// Refused, since showing the lists of everything below is not what the flag does elsewhere.
		case recursive:
			return console.Usagef("--recursive changes lists: it needs --set, --modify or --remove")
		}
		a, err := laketool.GetAccess(cmd.Context(), client, fs, name)
		if err != nil {
			return err
		}
		return output(a, func(out io.Writer) error {
			_, err := fmt.Fprintf(out, "owner %s\ngroup %s\npermissions %s\n%s\n", a.Owner, a.Group, a.Permissions,
				strings.ReplaceAll(a.ACL, ",", "\n"))
			return err
		})
	}
	return cmd
}
