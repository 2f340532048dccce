package auth

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/storage/filelock"
	"github.com/lazuli-storage/lazuli/internal/storage/secretfile"
)

// keySize is the length of Azure's account keys in bytes.
const keySize = 64

// GenerateKey returns a random key and its base64 form, which no other function returns.
func GenerateKey() (base64Key string, k Key, err error) {
	secret := make([]byte, keySize)
	if _, err := rand.Read(secret); err != nil {
		return "", k, err
	}
	base64Key = base64.StdEncoding.EncodeToString(secret)
	k, err = ParseKey(base64Key)
	return base64Key, k, err
}

// StoredAccount is one line of an accounts file: a name, one or two keys in base64, and settings.
type StoredAccount struct {
	Name      string
	Keys      []string
	Overrides accountprops.Overrides
}

// ParseAccount reads the text form of an account, "name:key1[:key2] [setting=value ...]". Errors name no keys.
func ParseAccount(text string) (s StoredAccount, err error) {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return s, errAccountForm
	}
	parts := strings.Split(fields[0], ":")
	if len(parts) == 3 && parts[2] == "" { // as in AZURITE_ACCOUNTS
		parts = parts[:2]
	}
	if len(parts) < 2 || len(parts) > 3 {
		return s, errAccountForm
	}
	s.Name, s.Keys = parts[0], parts[1:]
	if s.Overrides, err = accountprops.ParseOverrides(fields[1:]); err != nil {
		return s, fmt.Errorf("account %s: %w", s.Name, err)
	}
	return s, nil
}

var errAccountForm = errors.New("want name:key1[:key2] [setting=value ...]")

// line formats the account, with its keys, for ParseAccount.
func (s StoredAccount) line() string {
	text := s.Name + ":" + strings.Join(s.Keys, ":")
	if len(s.Overrides) > 0 {
		text += " " + s.Overrides.String()
	}
	return text
}

// Account converts s to an Account.
func (s StoredAccount) Account() (Account, error) {
	a := Account{Name: s.Name, Overrides: s.Overrides}
	for i, text := range s.Keys {
		k, err := ParseKey(text)
		if err != nil {
			return a, fmt.Errorf("account %s, key %d: %w", s.Name, i+1, err)
		}
		a.Keys = append(a.Keys, k)
	}
	return a, nil
}

// maxAccountsFile is the maximum size of an accounts file in bytes.
const maxAccountsFile = 4 << 20

const accountsHeader = "# Storage accounts of Lazuli, one a line: name:key1[:key2] [setting=value ...]. The keys " +
	"are secrets.\n"

// ReadAccountsFile reads a file with a line for each account, see [ParseAccount]; empty lines and lines that begin
// with # are ignored. Any other content is an error, and so is a file that other users may write to. Errors name lines
// and accounts, never keys.
func ReadAccountsFile(path string) ([]StoredAccount, error) {
	text, err := secretfile.Read(path, maxAccountsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("accounts file: %w; lazuli account create NAME --file %s makes it", err, path)
	}
	if err != nil {
		return nil, fmt.Errorf("accounts file: %w", err)
	}
	var list []StoredAccount
	n := 0
	for line := range bytes.Lines(text) {
		n++
		s := strings.TrimSpace(string(line))
		if s == "" || s[0] == '#' {
			continue
		}
		account, err := ParseAccount(s)
		if err != nil {
			return nil, fmt.Errorf("accounts file %s, line %d: %w", path, n, err)
		}
		list = append(list, account)
	}
	if err := checkStored(list); err != nil {
		return nil, fmt.Errorf("accounts file %s: %w", path, err)
	}
	return list, nil
}

func checkStored(list []StoredAccount) error {
	_, err := accountsOf(list)
	return err
}

func accountsOf(list []StoredAccount) ([]Account, error) {
	accounts := make([]Account, len(list))
	for i, s := range list {
		var err error
		if accounts[i], err = s.Account(); err != nil {
			return nil, err
		}
	}
	return accounts, CheckAccounts(accounts...)
}

// EditAccountsFile replaces the accounts of a file by the result of edit, atomically; other editors
// wait. A file that does not exist is created. If edit fails, the file is unchanged. Its owner and
// permissions are those of package secretfile. The lock file is path.lock.
func EditAccountsFile(path string, edit func([]StoredAccount) ([]StoredAccount, error)) error {
	// The lock is on a file of its own, since the accounts file is replaced by each edit.
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, secretfile.Mode)
	if err != nil {
		return fmt.Errorf("accounts file: %w", err)
	}
	if err := filelock.Wait(lock); err != nil {
		return fmt.Errorf("accounts file: lock %s: %w", lock.Name(), errors.Join(err, lock.Close()))
	}
	defer filelock.Close(lock)
	list, err := ReadAccountsFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if list, err = edit(list); err != nil {
		return err
	}
	return writeAccountsFile(path, list)
}

func writeAccountsFile(path string, list []StoredAccount) error {
	if err := checkStored(list); err != nil {
		return err
	}
	b := []byte(accountsHeader)
	for _, s := range list {
		b = append(b, s.line()+"\n"...)
	}
	return secretfile.Write(path, b)
}

// LoadAccounts reads the accounts of a file. A file without accounts is an error.
func LoadAccounts(path string) ([]Account, error) {
	list, err := ReadAccountsFile(path)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("accounts file %s has no account; add one with: lazuli account create NAME --file %s", path, path)
	}
	return accountsOf(list)
}

// WatchAccounts updates a set from an accounts file until ctx ends: it checks the file when a value
// arrives on reload (SIGHUP), and at each tick of every. An invalid file does not change the set and is
// logged once. reload may be nil.
func WatchAccounts(ctx context.Context, path string, accounts *Accounts, every time.Duration, reload <-chan os.Signal,
	log *slog.Logger) {
	if log == nil {
		log = slog.Default()
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	w := accountsWatch{path: path, accounts: accounts, log: log}
	w.check(true)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.check(false)
		case _, ok := <-reload:
			if !ok {
				// A closed channel is ready at all times, nil at none.
				reload = nil
				continue
			}
			w.check(true)
		}
	}
}

type accountsWatch struct {
	path     string
	accounts *Accounts
	log      *slog.Logger
	seen     os.FileInfo
	problem  string
	names    []string
}

// check reads the file if it has changed, or if force is set.
func (w *accountsWatch) check(force bool) {
	info, err := os.Stat(w.path)
	if err == nil && !force && w.seen != nil && os.SameFile(info, w.seen) && info.ModTime().Equal(w.seen.ModTime()) &&
		info.Size() == w.seen.Size() {
		return
	}
	var list []Account
	if err == nil {
		// What Stat saw before the read is kept, so that a write during the read counts as a change next time.
		w.seen = info
		list, err = LoadAccounts(w.path)
	}
	if err == nil {
		err = w.accounts.Replace(list...)
	}
	if err != nil {
		w.logProblem(err)
		return
	}
	w.problem = ""
	if names := w.accounts.Names(); !force || !slices.Equal(names, w.names) {
		w.log.Info("accounts are read", "file", w.path, "accounts", len(names))
		w.names = names
	}
}

func (w *accountsWatch) logProblem(err error) {
	var path *os.PathError
	text := err.Error()
	if errors.As(err, &path) {
		text = path.Error()
	}
	if text != w.problem {
		w.log.Error("accounts file cannot be used; the accounts stay as they were", "err", err)
		w.problem = text
	}
}
