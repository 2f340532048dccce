package browsertest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
)

// An account with directories has one view: directories are made, filled, renamed and deleted, and their access control
// is changed; what the service refuses is shown, and what was entered stays.
func TestTreeActions(t *testing.T) {
	accounts, err := auth.NewManagedAccounts(accountprops.Blob{Hierarchical: true},
		*auth.Development().Get(auth.DevelopmentAccount))
	if err != nil {
		t.Fatal(err)
	}
	b := openWith(t, accounts)
	b.visit(account + "containers")
	b.do(chromedp.SendKeys("form[method=post] input[name=name]", "lake"))
	b.button("main", "Create")
	b.sees("The directory is empty.")
	b.do(chromedp.SendKeys("form[method=post] input[name=name]", "raw"))
	b.button("main", "Create")
	b.sees("Created.")
	b.button("main", "raw/")
	b.sees("Rename to")
	file := filepath.Join(t.TempDir(), "hello.txt")
	if err := os.WriteFile(file, []byte("hello from a browser"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.SetUploadFiles("[data-upload] input", []string{file}))
	b.sees("Uploaded.")
	b.sees("20 B")
	b.accessible("directory")
	b.shot("directory")
	b.button("main", "Owner and access of raw")
	b.do(chromedp.SetValue("textarea[name=acl]", "user::rwq"))
	b.button("main", "Save the list")
	b.sees("The access control list value is invalid")
	b.until("document.querySelector('textarea[name=acl]').value === 'user::rwq'", "the list that was entered")
	b.accessible("directory-refused")
	b.shot("directory-refused")
	b.do(chromedp.SetValue("textarea[name=acl]", "user::rwx\ngroup::r-x\nother::---"))
	b.button("main", "Save the list")
	b.sees("Saved.")
	b.button("main", "hello.txt")
	b.sees("hello from a browser")
	b.do(chromedp.SetValue("input[name=owner]", "ada"), chromedp.SetValue("input[name=permissions]", "0600"))
	b.button("#access", "Save")
	b.sees("Saved.")
	b.until("document.querySelector('input[name=permissions]').value === 'rw-------'", "the new permissions")
	b.accessible("file")
	b.shot("file")
	b.do(chromedp.SetValue("input[name=to]", "raw/moved.txt"))
	b.button("main", "Rename")
	b.sees("Renamed.")
	b.visit(account + "paths/lake")
	b.until("document.querySelector('[data-label=Files]')?.textContent === '1'", "the number of files")
	b.accessible("tree")
	b.shot("tree")
	b.do(emulation.SetEmulatedMedia().WithFeatures(
		[]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}))
	b.page("tree-dark", account+"paths/lake?path=raw", "moved.txt")
	b.do(chromedp.EmulateViewport(360, 700))
	for _, path := range []string{"paths/lake", "paths/lake?path=raw", "blob/lake?name=raw/moved.txt"} {
		b.visit(account + path)
		b.sees("Owner and access")
		b.shot("tree-narrow")
		var wide int
		if b.do(chromedp.Evaluate("document.documentElement.scrollWidth", &wide)); wide > 360 {
			t.Errorf("%s is %d pixels wide in a window of 360", path, wide)
		}
	}
	b.visit(account + "paths/lake")
	b.do(chromedp.Click("input[name=chosen]"))
	b.button("main", "Delete the selected (1)")
	b.confirm()
	b.sees("The directory is empty.")
	b.mu.Lock()
	b.problems = nil // the browser logs the status 400 of what was refused
	b.mu.Unlock()
}
