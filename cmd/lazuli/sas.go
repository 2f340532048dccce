package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/accountverb"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
)

// sasFlags are the flags that all kinds of tokens share.
type sasFlags struct {
	account, accountsFile string
	keyNumber             int
	endpoint              string
	connection            string
	settings              connstr.Settings // of the connection string
	tokenOnly             bool
	start, expiry         string
	token                 auth.Token
	httpsOnly             bool
}

// newSASCommand makes `lazuli sas`.
func newSASCommand() *cobra.Command {
	f := new(sasFlags)
	cmd := &cobra.Command{
		Use:   "sas",
		Short: "Create a shared access signature",
		Long: `Create a shared access signature (SAS) and print the URL with it, or with --token only the query
string.

The account, its key and its address come from a connection string: --connection-string, or the first of the
environment variables ` + strings.Join(connstr.Variables, ", ") + `
that is set. Without one, the command uses the development account. --account names another account, whose key
comes from the accounts file (--accounts-file or ` + accountverb.FileVariable + `) or from AZURE_STORAGE_KEY.
There is no flag for a key: other users of the machine can see command lines.`,
		Example: `  lazuli sas container photos --permissions rl --expiry 8h
  lazuli sas table Employees --permissions r --startpk A --endpk M
  lazuli sas account --services bq --resource-types sco --permissions rwdlacup`,
	}
	// On the parent, for all resources: what is signed differs, and who signs does not.
	p := cmd.PersistentFlags()
	p.StringVar(&f.account, "account", "", "Storage account (default: the account of the connection string)")
	// No flag for the key, see Long: command lines are visible in the list of processes.
	p.StringVar(&f.connection, "connection-string", "", "Connection string with the account, its key and its addresses")
	p.StringVar(&f.accountsFile, "accounts-file", os.Getenv(accountverb.FileVariable),
		"Accounts file with the account's key")
	p.IntVar(&f.keyNumber, "key-number", 1, "Key of the account that signs: 1 or 2")
	p.StringVar(&f.endpoint, "endpoint", "",
		`Address of the account's service, such as "http://127.0.0.1:10000/devstoreaccount1"`)
	p.BoolVar(&f.tokenOnly, "token", false, "Print only the query string")
	p.StringVar(&f.start, "start", "", "Start: a UTC time, or a duration from now (10m); default: none")
	p.StringVar(&f.expiry, "expiry", "1h", "Expiry: a UTC time (2030-01-31T12:00:00Z), or a duration from now (8h, 7d)")
	p.StringVar(&f.token.Permissions, "permissions", "",
		"Permissions: r read, a add, c create, w write, d delete, l list, u update, p process, ...")
	p.StringVar(&f.token.IP, "ip", "", "Client address or range of addresses (10.0.0.1-10.0.0.9)")
	p.BoolVar(&f.httpsOnly, "https-only", false, "Allow https only")
	p.StringVar(&f.token.VersionText, "sv", auth.SASVersion, "Service version of the token")
	cmd.AddCommand(newSASAccount(f), newSASResource(f, wire.Blob, "container CONTAINER"),
		newSASResource(f, wire.Blob, "blob CONTAINER/BLOB"), newSASResource(f, wire.Blob, "directory CONTAINER/DIRECTORY"),
		newSASResource(f, wire.Queue, "queue QUEUE"), newSASResource(f, wire.Table, "table TABLE"))
	return cmd
}

func newSASAccount(f *sasFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "account",
		Short: "Create an account SAS",
		Args:  cobra.NoArgs,
	}
	output := console.LineOutput(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		svc, ok := map[byte]wire.Service{'b': wire.Blob, 'q': wire.Queue, 't': wire.Table}[(f.token.Services + " ")[0]]
		if !ok || f.token.ResourceTypes == "" {
			return console.Usagef("an account SAS needs --services (letters of bqt) and --resource-types (letters of sco)")
		}
		return f.print(output, svc, "")
	}
	cmd.Flags().StringVar(&f.token.Services, "services", "", "Letters of b blob, q queue, t table")
	cmd.Flags().StringVar(&f.token.ResourceTypes, "resource-types", "", "Letters of s service, c container, o object")
	return cmd
}

func newSASResource(f *sasFlags, svc wire.Service, use string) *cobra.Command {
	kind, _, _ := strings.Cut(use, " ")
	cmd := &cobra.Command{Use: use, Short: "Create a SAS for a " + kind, Args: cobra.ExactArgs(1)}
	output := console.LineOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.token.Policy != "" && !cmd.Flags().Changed("expiry") {
			f.expiry = "" // the policy's
		}
		args[0] = strings.TrimSuffix(args[0], "/")
		if kind == "directory" {
			f.token.Resource, f.token.Depth = "d", strconv.Itoa(strings.Count(args[0], "/"))
		}
		if below := strings.Contains(args[0], "/"); below != (kind == "blob" || kind == "directory") {
			return console.Usagef("%q is not the name of a %s", args[0], kind)
		}
		return f.print(output, svc, args[0])
	}
	cmd.Flags().StringVar(&f.token.Policy, "policy", "",
		"Stored access policy for the values that the token does not have")
	switch svc {
	case wire.Table:
		cmd.Flags().StringVar(&f.token.StartPK, "startpk", "", "First partition key")
		cmd.Flags().StringVar(&f.token.StartRK, "startrk", "", "First row key, in the first partition")
		cmd.Flags().StringVar(&f.token.EndPK, "endpk", "", "Last partition key")
		cmd.Flags().StringVar(&f.token.EndRK, "endrk", "", "Last row key, in the last partition")
	case wire.Blob:
		cmd.Flags().StringVar(&f.token.CacheControl, "cache-control", "", "Cache-Control of answers")
		cmd.Flags().StringVar(&f.token.ContentDisposition, "content-disposition", "", "Content-Disposition of answers")
		cmd.Flags().StringVar(&f.token.ContentType, "content-type", "", "Content-Type of answers")
	}
	return cmd
}

// print signs the token and prints it.
func (f *sasFlags) print(output console.LineWriter, svc wire.Service, resource string) error {
	if f.token.Permissions == "" && f.token.Policy == "" {
		return console.Usagef("--permissions is required, for example r for reading")
	}
	now := time.Now()
	var err error
	if f.token.Start, err = sasTime("--start", f.start, now); err != nil {
		return err
	}
	if f.token.Expiry, err = sasTime("--expiry", f.expiry, now); err != nil {
		return err
	}
	if f.httpsOnly {
		f.token.Protocol = "https"
	}
	if err := f.resolve(); err != nil {
		return err
	}
	base, err := f.address(svc)
	if err != nil {
		return err
	}
	text, err := f.key()
	if err != nil {
		return err
	}
	key, err := auth.ParseKey(text)
	if err != nil {
		return fmt.Errorf("the key of account %s: %w", f.account, err)
	}
	query, err := f.token.Sign(f.account, key, svc, resource)
	if err != nil {
		return console.Usage(err)
	}
	// The signature is over the name as it is; only the address is escaped.
	path := (&url.URL{Path: resource}).EscapedPath()
	if resource != "" {
		path = "/" + path
	}
	line := base + path + "?" + query
	if f.tokenOnly {
		line = query
	}
	return output(struct {
		URL   string `json:"url"`
		Token string `json:"token"`
	}{base + path + "?" + query, query}, "%s", line)
}

// address is the account's service for the URL.
func (f *sasFlags) address(svc wire.Service) (string, error) {
	if f.endpoint != "" {
		u, err := url.Parse(f.endpoint)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
			return "", console.Usagef("--endpoint %q is not an address", f.endpoint)
		}
		return strings.TrimSuffix(f.endpoint, "/"), nil
	}
	if f.account == f.settings.Account {
		return f.connectionAddress(svc), nil
	}
	port := map[wire.Service]int{wire.Blob: 10000, wire.Queue: 10001, wire.Table: 10002}[svc]
	scheme := "http"
	if f.httpsOnly {
		scheme = "https"
	}
	return scheme + "://127.0.0.1:" + strconv.Itoa(port) + "/" + f.account, nil
}

// resolve reads the connection string, which gives the account unless --account does.
func (f *sasFlags) resolve() error {
	text, err := target.ChooseConnection(f.connection)
	if err != nil {
		return err
	}
	if f.settings, err = connstr.Parse(text); err != nil {
		return console.Usage(err)
	}
	if f.account == "" {
		if f.account = f.settings.Account; f.account == "" {
			return console.Usagef("the connection string has no account name; give --account")
		}
	}
	return nil
}

// connectionAddress is the address of the account's service in the connection string, which has all three when it names
// an account.
func (f *sasFlags) connectionAddress(svc wire.Service) string {
	endpoint := map[wire.Service]string{wire.Blob: f.settings.BlobEndpoint, wire.Queue: f.settings.QueueEndpoint,
		wire.Table: f.settings.TableEndpoint}[svc]
	if rest, plain := strings.CutPrefix(endpoint, "http://"); plain && f.httpsOnly {
		endpoint = "https://" + rest
	}
	return endpoint
}

// key finds the account's key without the command line.
func (f *sasFlags) key() (string, error) {
	// 0 would be the last key of an index that counts from the end, or panic below.
	if f.keyNumber != 1 && f.keyNumber != 2 {
		return "", console.Usagef("--key-number must be 1 or 2")
	}
	// The file first: who names it wants that account's key, even if a connection string of the environment has another
	// one.
	if f.accountsFile != "" {
		account, err := accountverb.Read(f.accountsFile, f.account)
		if err != nil {
			return "", err
		}
		if f.keyNumber > len(account.Keys) {
			return "", fmt.Errorf("account %s has no key %d", f.account, f.keyNumber)
		}
		return account.Keys[f.keyNumber-1], nil
	}
	// Only if it is the same account: the environment's key would sign for an account that it does not belong to, and the
	// service would answer 403.
	if f.settings.Account == f.account && !f.settings.Key.Empty() {
		return f.settings.Key.Reveal(), nil
	}
	if text := os.Getenv("AZURE_STORAGE_KEY"); text != "" &&
		(os.Getenv("AZURE_STORAGE_ACCOUNT") == f.account || os.Getenv("AZURE_STORAGE_ACCOUNT") == "") {
		return text, nil
	}
	// The key of this account is public and part of the documentation.
	if f.account == auth.DevelopmentAccount {
		return auth.DevelopmentKey, nil
	}
	return "", fmt.Errorf("the key of account %s is not known: give a connection string with a key, an accounts file, "+
		"or AZURE_STORAGE_KEY", f.account)
}

// sasTime reads a time, or a duration from now, which may be in days.
func sasTime(flag, text string, now time.Time) (string, error) {
	if text == "" {
		return "", nil
	}
	if _, ok := wire.ParseISO(text); ok {
		return text, nil
	}
	d, err := time.ParseDuration(text)
	if days, isDays := strings.CutSuffix(text, "d"); err != nil && isDays {
		var n int
		if n, err = strconv.Atoi(days); err == nil && (n < 0 || n > 36500) {
			err = errors.New("too long")
		}
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil {
		return "", console.Usagef("%s %q is neither a UTC time like 2030-01-31T12:00:00Z nor a duration like 8h or 7d",
			flag, text)
	}
	// A start before now allows for clocks that differ. An expiry before now is a slip of the pen: who wants a token
	// that has expired, for a test, gives a time.
	if flag == "--expiry" && d <= 0 {
		return "", console.Usagef("--expiry %s: the token would have expired already", text)
	}
	return now.Add(d).UTC().Format("2006-01-02T15:04:05Z"), nil
}
