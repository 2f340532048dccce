package funcapp

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// templates are the files of new apps and functions: any/ for each app, LANGUAGE/app/ for those of a language, and a
// file of LANGUAGE/ for each trigger. In them FOLDER, LANGUAGE, NAME and LEVEL stand for the app's folder, its
// FUNCTIONS_WORKER_RUNTIME, the function's name and its access level.
//
//go:embed templates
var templates embed.FS

// Languages are the languages with templates.
var Languages = []Language{
	{"javascript", "node", "V4", ".js", "npm install"},
	{"typescript", "node", "V4", ".ts", "npm install"},
	{"python", "python", "V2", ".py", "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt"},
	{"csharp", "dotnet-isolated", "", ".cs", "dotnet restore"},
	{"java", "java", "", ".java", "mvn dependency:resolve"},
}

type Language struct{ Name, Runtime, Model, extension, install string }

// Choose returns the index of the language that the flags name.
func Choose(language, runtime string) (int, error) {
	names := "python, javascript, typescript, csharp or java"
	for _, name := range []string{language, runtime} {
		if strings.EqualFold(name, "node") {
			name = "javascript"
		} else if strings.EqualFold(name, "dotnet-isolated") || strings.EqualFold(name, "c#") {
			name = "csharp"
		}
		if name == "" {
			continue
		}
		for i, l := range Languages {
			if strings.EqualFold(l.Name, name) {
				return i, nil
			}
		}
		return 0, fmt.Errorf("func init: no language is called %q; want %s", name, names)
	}
	return 0, fmt.Errorf("func init: --language is missing: %s", names)
}

// Init writes the files of a new app, and says so.
func Init(out io.Writer, dir string, language int, force bool) error {
	l := Languages[language]
	full, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	folder := strings.ToLower(regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(filepath.Base(full), "-"))
	replace := strings.NewReplacer("FOLDER", strings.Trim(folder, "-"), "LANGUAGE", l.Runtime)
	files := map[string]string{} // templates by the paths of the files
	for _, root := range []string{"templates/any", "templates/" + l.Name + "/app"} {
		if err := fs.WalkDir(templates, root, func(p string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				name := strings.TrimPrefix(p, root+"/")
				if strings.HasSuffix(name, "ignore") {
					name = "." + name
				}
				files[filepath.FromSlash(name)] = p
			}
			return err
		}); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text, err := templates.ReadFile(files[name])
		if err != nil {
			return err
		}
		if err := writeNew(filepath.Join(dir, name), replace.Replace(string(text)), force); errors.Is(err, fs.ErrExist) {
			fmt.Fprintf(out, "%s exists, and stays as it is\n", name)
			continue
		} else if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n", name)
	}
	_, err = fmt.Fprintf(out,
		"\nIn %s, install the packages (%s), and add a function: lazuli func new NAME "+
			"--template http\n", dir, l.install)
	return err
}

// writeNew writes a file, and the folders above it. Without force, a file that exists is the error fs.ErrExist.
func writeNew(name, text string, force bool) error {
	if err := disk.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(name, flags, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Templates are the triggers with a template, by the names of Core Tools.
var Templates = []struct{ Name, CoreTools string }{
	{"http", "HTTP trigger"}, {"queue", "Azure Queue Storage trigger"}, {"blob", "Azure Blob Storage trigger"},
	{"timer", "Timer trigger"}, {"durable", "Durable Functions orchestrator"},
}

func TemplateNames() string {
	var names []string
	for _, t := range Templates {
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ")
}

// New writes a function and says what it has done.
func New(dir, name, template, level string) (string, error) {
	// The language is read from the files that each kind of app has, as nothing in host.json names it. TypeScript before
	// JavaScript by its tsconfig.json.
	language := slices.IndexFunc(Languages, func(l Language) bool {
		switch l.Name {
		case "python":
			return isFile(dir, "function_app.py")
		case "csharp":
			return IsProject(dir)
		case "java":
			return isFile(dir, mavenProject)
		case "typescript":
			return isFile(dir, "package.json") && isFile(dir, "tsconfig.json")
		}
		return isFile(dir, "package.json") && !isFile(dir, "tsconfig.json")
	})
	if !isFile(dir, "host.json") || language < 0 {
		return "", fmt.Errorf("%s is not the folder of an app in Python (v2), JavaScript or TypeScript (v4), C# or Java: "+
			"make one by `lazuli func init --language ...`", dir)
	}
	l := Languages[language]
	// The name becomes an identifier in these languages, where a hyphen is not allowed.
	pattern := `^[A-Za-z][A-Za-z0-9_-]{0,126}$`
	if l.Name == "python" || l.Name == "csharp" || l.Name == "java" {
		pattern = `^[A-Za-z][A-Za-z0-9_]{0,126}$`
	}
	if !regexp.MustCompile(pattern).MatchString(name) {
		return "", fmt.Errorf("%q is not a name for a function: want a letter, then letters, digits and _ "+
			"(`lazuli func new NAME`)", name)
	}
	chosen := ""
	for _, t := range Templates {
		if strings.EqualFold(template, t.Name) || strings.EqualFold(template, t.CoreTools) {
			chosen = t.Name
		}
	}
	if chosen == "" {
		return "", fmt.Errorf("no template is called %q: --template is one of %s", template, TemplateNames())
	}
	raw, err := templates.ReadFile(path.Join("templates", l.Name, chosen+l.extension))
	if err != nil {
		return "", err
	}
	if level = strings.ToLower(level); !slices.Contains([]string{"anonymous", "function", "admin"}, level) {
		return "", fmt.Errorf("--authlevel is %q, not anonymous, function or admin", level)
	}
	if l.Name == "python" || l.Name == "java" {
		// Each library has its own case of the names of levels.
		level = strings.ToUpper(level)
	} else if l.Name == "csharp" {
		level = strings.ToUpper(level[:1]) + level[1:]
	}
	text := strings.NewReplacer("NAME", name, "LEVEL", level).Replace(string(raw))
	target := filepath.Join(dir, "src", "functions", name+l.extension)
	needs := ""
	switch {
	case l.Name == "python" && chosen == "durable":
		target = filepath.Join(dir, name+l.extension)
		needs = "; it needs the package azure-functions-durable: add it to requirements.txt and install it"
	// One file for all functions: the new one is appended, and no file is made.
	case l.Name == "python":
		return "Added " + name + " to function_app.py", appendTo(filepath.Join(dir, "function_app.py"), name, text)
	case l.Name == "java":
		target = filepath.Join(dir, "src", "main", "java", "app", name+l.extension)
	case l.Name == "csharp":
		target = filepath.Join(dir, name+l.extension)
	case chosen == "durable":
		needs = "; it needs a package: npm install durable-functions"
	}
	if err := writeNew(target, text, false); err != nil {
		return "", err
	}
	if l.Name == "python" {
		// A blueprint in a file of its own works only if the app registers it.
		register := fmt.Sprintf("\n\nfrom %s import bp as %s_bp  # noqa: E402\n\napp.register_functions(%s_bp)\n", name, name,
			name)
		if err := appendTo(filepath.Join(dir, "function_app.py"), name+"_bp", register); err != nil {
			// A file that nothing registers would look like a function that does not run.
			return "", errors.Join(err, os.Remove(target))
		}
	}
	return "Wrote " + target + needs, nil
}

// appendTo adds a text to a Python file that has no name of its kind yet.
func appendTo(file, name, text string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`).Match(old) {
		return fmt.Errorf("%s has the name %s already", file, name)
	}
	return os.WriteFile(file, append(old, text...), 0o644)
}

func isFile(parts ...string) bool {
	info, err := os.Stat(filepath.Join(parts...))
	return err == nil && info.Mode().IsRegular()
}
