package storageverb

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/sdk/tabletool"
)

func newTablePutCommand() *cobra.Command {
	var mode string
	cmd := &cobra.Command{Use: "put TABLE [FILE]", Short: "Write entities, a line of JSON each",
		Args: cobra.RangeArgs(1, 2),
		Long: `Write entities, a line of JSON each, in the form in which query shows them, from a file or the standard input. It stops at the first entity that is
refused and names its line; those before it are written.`,
		Example: `  echo '{"PartitionKey":"Sales","RowKey":"0001","Age":30,"Hired":"2026-01-02T00:00:00Z","Hired@odata.type":"Edm.DateTime"}' | lazuli table put Employees
  lazuli table query Employees | lazuli table put Copy`}
	open := tableService(cmd)
	cmd.Flags().StringVar(&mode, "mode", tabletool.Replace,
		"insert: fail if the entity exists; replace: write it as it is; merge: keep the properties that are not given")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch mode {
		case tabletool.Insert, tabletool.Replace, tabletool.Merge:
		default:
			return console.Usagef("--mode %q is not insert, replace or merge", mode)
		}
		service, err := open(cmd.Context())
		if err != nil {
			return err
		}
		var content io.Reader = cmd.InOrStdin()
		if len(args) == 2 && args[1] != "-" {
			f, err := os.Open(args[1])
			if err != nil {
				return err
			}
			defer f.Close()
			content = f
		}
		count, err := tabletool.Put(cmd.Context(), service.NewClient(args[0]), content, mode)
		if err == nil && count == 0 { // nothing has told whether the table exists
			one := int32(1)
			_, err = service.NewClient(args[0]).NewListEntitiesPager(&aztables.ListEntitiesOptions{Top: &one}).
				NextPage(cmd.Context())
			if err != nil {
				return err
			}
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s written\n", console.Count(count, "entity"))
		return err
	}
	return cmd
}

func newTableGetCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "get TABLE PARTITION-KEY ROW-KEY", Short: "Show one entity as JSON",
		Args: cobra.ExactArgs(3)}
	open := tableService(cmd)
	cmd.RunE = open.Run(func(cmd *cobra.Command, args []string, service *aztables.ServiceClient) error {
		entity, err := tabletool.Get(cmd.Context(), service.NewClient(args[0]), args[1], args[2])
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", entity)
		return err
	})
	return cmd
}

func newTableRemoveCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "rm TABLE [PARTITION-KEY ROW-KEY]",
		Short: "Delete one entity, or a table with its entities", Args: oneOrThree,
		Example: `  lazuli table rm Employees Sales 0001
  lazuli table rm Employees --yes`}
	open, confirm := tableService(cmd), console.Confirmation(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			if err := confirm(fmt.Sprintf("Delete the table %s with all its entities?", args[0])); err != nil {
				return err
			}
		}
		service, err := open(cmd.Context())
		if err != nil {
			return err
		}
		if len(args) == 1 {
			return tabletool.Delete(cmd.Context(), service, args[0])
		}
		return tabletool.Remove(cmd.Context(), service.NewClient(args[0]), args[1], args[2])
	}
	return cmd
}

// oneOrThree accepts a table, or a table and both keys.
func oneOrThree(_ *cobra.Command, args []string) error {
	if len(args) != 1 && len(args) != 3 {
		return errors.New("want a table, or a table and both keys")
	}
	return nil
}
