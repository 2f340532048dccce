package accountverb

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
)

// FileVariable names the accounts file where no flag does.
const FileVariable = "LAZULI_ACCOUNTS_FILE"

// NewCommand makes `lazuli account`. environ is the environment, for the admin listener.
func NewCommand(environ []string) *cobra.Command {
	var at accountPlace
	cmd := &cobra.Command{
		Use:   "account",
		Short: "List, add, set, rotate and remove storage accounts, in a running server or an accounts file",
		Long: `With --server, the command changes the accounts of a running server that was
started with --managed-accounts. The server keeps them in its data folder, and in a
cluster every node has them. LAZULI_ADMIN_TOKEN is the token of its admin listener.

With --file, the command edits an accounts file, which has one line "name:key1[:key2]
[setting=value ...]" for each storage account and is readable only by its owner. A
server that was started with the file applies changes within seconds, without a
restart.

To rotate keys without downtime: switch clients to key 2, rotate key 1, switch
clients to key 1, rotate key 2.`,
	}
	at.ask = target.AdminFlags(environ, cmd, "/admin/accounts")
	cmd.PersistentFlags().StringVar(&at.file, "file", os.Getenv(FileVariable),
		"Accounts file; "+FileVariable+" has the same meaning")
	cmd.PersistentFlags().BoolVar(&at.server, "server", false,
		"The accounts of a running server, at the address of --admin-host and --admin-port")
	cmd.AddCommand(newList(&at), newAdd(&at), newSet(&at), newUnset(&at),
		newRotate(&at), newRemove(&at), newShow(&at))
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if at.server && cmd.Flags().Changed("file") {
			return console.Usagef("--server and --file exclude each other")
		}
		return nil
	}
	return cmd
}

var errNoAccountsFile = console.Usagef("say where the accounts are: --server, or an accounts file by --file or " +
	FileVariable)

func readAccounts(file string) ([]auth.StoredAccount, error) {
	if file == "" {
		return nil, errNoAccountsFile
	}
	return auth.ReadAccountsFile(file)
}

// Read reads one account of an accounts file.
func Read(file, name string) (auth.StoredAccount, error) {
	list, err := readAccounts(file)
	if err != nil {
		return auth.StoredAccount{}, err
	}
	i := indexOf(list, name)
	if i < 0 {
		return auth.StoredAccount{}, errNoAccount(name)
	}
	return list[i], nil
}

// indexOf returns the index of an account, or -1.
func indexOf(list []auth.StoredAccount, name string) int {
	return slices.IndexFunc(list, func(a auth.StoredAccount) bool { return a.Name == name })
}

func errNoAccount(name string) error { return fmt.Errorf("the file has no account %s", name) }

// editAccount replaces an account of the file by what edit makes of the list and the account's place in it.
func editAccount(file, name string, edit func(list []auth.StoredAccount, i int) ([]auth.StoredAccount, error)) error {
	if _, err := readAccounts(file); err != nil { // before a lock file is created for a file that does not exist
		return err
	}
	return auth.EditAccountsFile(file, func(list []auth.StoredAccount) ([]auth.StoredAccount, error) {
		i := indexOf(list, name)
		if i < 0 {
			return nil, errNoAccount(name)
		}
		return edit(list, i)
	})
}

func newList(at *accountPlace) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the accounts, with fingerprints of their keys and their settings",
		Args:    cobra.NoArgs,
	}
	output := console.ListOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if at.server {
			return at.of(cmd).list(output("NAME", "STATE", "KEYS AND SETTINGS"))
		}
		accounts, err := readAccounts(at.file)
		if err != nil {
			return err
		}
		out := output().Or("%s has no accounts; lazuli account create NAME adds one", at.file)
		for _, a := range accounts {
			row := struct {
				Name     string   `json:"name"`
				Keys     []string `json:"keyFingerprints"`
				Settings string   `json:"settings,omitempty"`
			}{Name: a.Name, Settings: a.Overrides.String()}
			text := ""
			// Fingerprints, never keys: this output ends in terminals' logs and bug reports, and a fingerprint is enough to
			// compare.
			for i, k := range a.Keys {
				row.Keys = append(row.Keys, auth.Fingerprint(k))
				text += fmt.Sprintf("key%d=%s  ", i+1, auth.Fingerprint(k))
			}
			err = errors.Join(err, out.Add(row, a.Name, text+row.Settings))
		}
		return out.End(err)
	}
	return cmd
}

func newAdd(at *accountPlace) *cobra.Command {
	var stdin, hierarchical bool
	cmd := &cobra.Command{
		Use:     "create NAME",
		Aliases: []string{"add"},
		Short:   "Add an account with two new keys; create the file if it does not exist",
		Long: `Adds an account with two new random keys; see them with "lazuli account show".
The development account ` + auth.DevelopmentAccount + ` gets its published key.

With --keys-stdin the keys are read from standard input, in base64, one or two
lines. There is no flag for keys: other users of the machine can see command lines.`,
		Args: cobra.ExactArgs(1),
	}
	output := console.LineOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := args[0]
		if !wire.AccountName(name) {
			return console.Usagef("account name %q must have 3 to 24 lower-case letters and digits", name)
		}
		if at.file == "" && !at.server {
			return errNoAccountsFile
		}
		// Before the file is locked: keys from standard input may take as long as a person types.
		keys, err := newKeys(name, stdin, cmd.InOrStdin())
		if err != nil {
			return err
		}
		if at.server {
			if err := at.of(cmd).add(name, keys, hierarchical); err != nil {
				return err
			}
			return output(accountRow{Name: name}, "added %s", name)
		}
		err = auth.EditAccountsFile(at.file, func(list []auth.StoredAccount) ([]auth.StoredAccount, error) {
			// Inside the edit, which has the lock: two commands at once must not both find the name free.
			if indexOf(list, name) >= 0 {
				return nil, fmt.Errorf("account %s exists; rotate its keys with: lazuli account rotate %s", name, name)
			}
			added := auth.StoredAccount{Name: name, Keys: keys}
			if hierarchical {
				var err error
				if added.Overrides, err = added.Overrides.With("hierarchical-namespace", "true"); err != nil {
					return nil, err
				}
			}
			return append(list, added), nil
		})
		if err != nil {
			return err
		}
		return output(accountRow{Name: name, File: at.file}, "added %s to %s", name, at.file)
	}
	cmd.Flags().BoolVar(&stdin, "keys-stdin", false, "Read one or two keys from standard input")
	cmd.Flags().BoolVar(&hierarchical, "hierarchical-namespace", false,
		"Give the account directories, access control lists and atomic renames")
	return cmd
}

// accountRow is the JSON of what was done to an account of a file.
type accountRow struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"` // "" in a running server
	Key  int    `json:"key,omitempty"`
	// Fingerprint is that of the new key.
	Fingerprint string `json:"fingerprint,omitempty"`
}

func newKeys(name string, stdin bool, in io.Reader) ([]string, error) {
	if stdin {
		var keys []string
		lines := bufio.NewScanner(io.LimitReader(in, 4096))
		for lines.Scan() {
			if text := strings.TrimSpace(lines.Text()); text != "" {
				keys = append(keys, text)
			}
		}
		if len(keys) < 1 || len(keys) > 2 {
			return nil, errors.New("standard input must have one or two keys, a line each")
		}
		return keys, lines.Err()
	}
	if name == auth.DevelopmentAccount {
		return []string{auth.DevelopmentKey}, nil
	}
	keys := make([]string, 2)
	for i := range keys {
		var err error
		if keys[i], _, err = auth.GenerateKey(); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

func newRotate(at *accountPlace) *cobra.Command {
	var which int
	cmd := &cobra.Command{
		Use:   "rotate NAME --key 1|2",
		Short: "Replace one key of an account; signatures by the old key become invalid",
		Args:  cobra.ExactArgs(1),
	}
	output := console.LineOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if which != 1 && which != 2 {
			return console.Usagef("give the key to replace: --key 1 or --key 2")
		}
		if at.server {
			fingerprint, err := at.of(cmd).rotate(args[0], which)
			if err != nil {
				return err
			}
			return output(accountRow{args[0], "", which, fingerprint}, "replaced key %d of %s; its fingerprint is %s", which,
				args[0], fingerprint)
		}
		key, _, err := auth.GenerateKey()
		if err != nil {
			return err
		}
		err = editAccount(at.file, args[0], func(list []auth.StoredAccount, i int) ([]auth.StoredAccount, error) {
			// An account made with one key gets its second one this way; the first stays valid until clients have moved over.
			if which > len(list[i].Keys) {
				list[i].Keys = append(list[i].Keys, key)
			} else {
				list[i].Keys[which-1] = key
			}
			return list, nil
		})
		if err != nil {
			return err
		}
		return output(accountRow{args[0], at.file, which, auth.Fingerprint(key)},
			"replaced key %d of %s; its fingerprint is %s", which, args[0], auth.Fingerprint(key))
	}
	cmd.Flags().IntVar(&which, "key", 0, "Which key to replace: 1 or 2")
	return cmd
}

func newRemove(at *accountPlace) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rm NAME",
		Aliases: []string{"remove"},
		Short:   "Remove an account; from a file, its data stays in the data folder",
		Args:    cobra.ExactArgs(1),
		Example: "  lazuli account rm team --file accounts --yes\n  lazuli account rm team --server --delete-data --yes",
	}
	confirm := console.Confirmation(cmd)
	deleteData := cmd.Flags().Bool("delete-data", false,
		"with --server, also delete the account's data; without this flag, an account with data is not removed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if at.server {
			what := "whose keys are then lost"
			if *deleteData {
				what = "with all of its data"
			}
			if err := confirm(fmt.Sprintf("Remove the account %s, %s?", args[0], what)); err != nil {
				return err
			}
			if err := at.of(cmd).remove(args[0], *deleteData); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "removed %s; the name is free again in a minute\n", args[0])
			return err
		}
		// Refused and not ignored: the data would be thought to be gone.
		if *deleteData {
			return console.Usagef("--delete-data goes with --server: the data of an account in a file stays")
		}
		if _, err := Read(at.file, args[0]); err != nil {
			return err
		}
		if err := confirm(fmt.Sprintf("Remove the account %s, whose keys are then lost?", args[0])); err != nil {
			return err
		}
		err := editAccount(at.file, args[0], func(list []auth.StoredAccount, i int) ([]auth.StoredAccount, error) {
			return slices.Delete(list, i, i+1), nil
		})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "removed %s from %s\n", args[0], at.file)
		return err
	}
	return cmd
}

func newShow(at *accountPlace) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Print the keys of an account or its connection string: both are secrets",
		Example: `  lazuli account show team --server
  export AZURE_STORAGE_CONNECTION_STRING="$(lazuli account show team --connection-string --host store.example --https)"`,
		Args: cobra.ExactArgs(1),
	}
	asString := cmd.Flags().Bool("connection-string", false, "print a connection string with the first key")
	host := cmd.Flags().String("host", "127.0.0.1", "with --connection-string, host name or address of the server")
	https := cmd.Flags().Bool("https", false, "with --connection-string, the server has a certificate (option cert)")
	// The ports of Azurite, which are the defaults of the server as well.
	ports := map[string]*uint16{}
	for name, port := range map[string]uint16{"blob": 10000, "queue": 10001, "table": 10002} {
		ports[name] = cmd.Flags().Uint16(name+"-port", port, "with --connection-string, port of the "+name+" service")
	}
	output := console.ReportOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		read := func() (auth.StoredAccount, error) { return Read(at.file, args[0]) }
		if at.server {
			read = func() (auth.StoredAccount, error) { return at.of(cmd).keys(args[0]) }
		}
		account, err := read()
		if err != nil {
			return err
		}
		row := struct {
			Name             string   `json:"name"`
			Keys             []string `json:"keys"`
			ConnectionString string   `json:"connectionString,omitempty"`
		}{Name: account.Name, Keys: account.Keys}
		if *asString {
			scheme := "http"
			if *https {
				scheme = "https"
			}
			endpoint := func(service string) string {
				return scheme + "://" + net.JoinHostPort(*host, strconv.Itoa(int(*ports[service]))) + "/" + account.Name
			}
			// The first key alone: a program needs one, and the second is there to change the first without a pause.
			row.ConnectionString = connstr.Settings{Account: account.Name, Key: connstr.NewSecret(account.Keys[0]),
				BlobEndpoint: endpoint("blob"), QueueEndpoint: endpoint("queue"), TableEndpoint: endpoint("table")}.Reveal()
		}
		return output(row, func(w io.Writer) error {
			if *asString {
				_, err := fmt.Fprintln(w, row.ConnectionString)
				return err
			}
			for n, k := range account.Keys {
				if _, err := fmt.Fprintf(w, "key%d %s\n", n+1, k); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return cmd
}
