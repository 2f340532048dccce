package config

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// What is printed is a file with which the same results.
func TestPrintedFileIsLoaded(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		nil,
		{"--in-memory", "--debug", "x.log", "--services", "blob,table", "--host", "127.0.0.2"},
		{"--location", "a b: c", "--dfs-port", "0", "--roles", "archive,table-index", "--table-index-by", "Town",
			"--archive-to", "folder:/x y", "--backup-to", "place", "--events", "--allow-event-host", "a.example,*.b.example"},
	} {
		r := mustLoad(t, args, nil, "")
		again, err := load(t, nil, nil, r.Print())
		if err != nil {
			t.Errorf("%v: %v\n%s", args, err, r.Print())
			continue
		}
		if fmt.Sprintf("%+v", again.Config) != fmt.Sprintf("%+v", r.Config) {
			t.Errorf("%v: got\n%+v, want\n%+v", args, again.Config, r.Config)
		}
	}
}

// Secrets are not in what is printed, and the rest is a file that is read.
func TestPrintedSecrets(t *testing.T) {
	t.Parallel()
	const key, token = "c2VjcmV0LWtleQ==", "secret-token-0123456789"
	r := mustLoad(t, nil, []string{"LAZULI_ACCOUNTS=shop:" + key, "LAZULI_ADMIN_TOKEN=" + token,
		"LAZULI_BACKUP_TOKEN=" + token, "LAZULI_BACKUP_TO=https://a.example/b?sig=" + key,
		"LAZULI_BACKUP_CONNECTION_STRING=AccountKey=" + key}, "blob-port: 1234\n")
	text := r.Print()
	if strings.Contains(text, key) || strings.Contains(text, token) {
		t.Error(text)
	}
	again, err := load(t, nil, nil, text)
	if err != nil || again.Blob.Port != 1234 {
		t.Errorf("%v: %s", err, text)
	}
}

// The example is the default, and each of its lines is an option that can be set.
func TestExample(t *testing.T) {
	t.Parallel()
	r, err := load(t, nil, nil, Example())
	if err != nil || fmt.Sprintf("%+v", r.Config) != fmt.Sprintf("%+v", mustLoad(t, nil, nil, "").Config) {
		t.Errorf("the example changes something: %v", err)
	}
	all := regexp.MustCompile(`(?m)^# ( *[a-z-]+:( \S.*)?)$`)
	n := 0
	for _, m := range all.FindAllStringSubmatch(Example(), -1) {
		n++
		if name, value, _ := strings.Cut(m[1], ": "); !strings.HasPrefix(name, " ") && !strings.HasSuffix(name, ":") &&
			value != `""` && lookup(name) == nil {
			t.Errorf("%q is no option", name)
		}
	}
	if n < 90 {
		t.Errorf("%d options", n)
	}
	// The section of the roles, whole.
	section := regexp.MustCompile(`(?ms)^# Worker roles\n.*?\n\n`).FindString(Example())
	var b strings.Builder
	for _, m := range all.FindAllStringSubmatch(section, -1) {
		if !strings.HasSuffix(m[1], `""`) {
			b.WriteString(m[1] + "\n")
		}
	}
	if r, err := load(t, nil, nil, b.String()); err != nil || fmt.Sprint(r.Roles) != fmt.Sprint(defaultRoles()) {
		t.Errorf("%v: %s", err, b.String())
	}
}

// A section of the roles that is wrong is refused with its line.
func TestRolesSection(t *testing.T) {
	t.Parallel()
	r := mustLoad(t, []string{"--table-index-by", "Age"}, []string{"LAZULI_ARCHIVE_QUEUE=q"},
		"roles:\n  enabled: [archive, table-index]\n  archive:\n    queue: other\n    from: A\n  tableIndex:\n    by: Town\n")
	if got := r.Roles; strings.Join(got.Enabled, " ") != "archive table-index" || got.ArchiveQueue != "q" ||
		got.ArchiveFrom != "A" || got.IndexBy != "Age" {
		t.Errorf("%+v", got)
	}
	for text, want := range map[string]string{
		"archive-from: A\n": "1: archive-from belongs in the section of its role: " +
			"roles: {archive: {from: ...}}",
		"roles:\n  archive:\n    form: A\n":         `3: unknown option "form"`,
		"roles:\n  archives:\n    from: A\n":        `2: unknown key "archives" in roles: want enabled, account, archive,`,
		"roles:\n  archive: A\n":                    `2: want the options of the role archive`,
		"roles:\n  enabled: [archives]\n":           `2: roles: "archives" is not`,
		"roles:\n  table-index:\n    kind: trees\n": `3: table-index-kind: "trees" is not`,
	} {
		if _, err := load(t, nil, nil, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
