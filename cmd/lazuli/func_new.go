package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// templates are the files of new apps and functions: any/ for each app, LANGUAGE/app/ for those of a language, and a
// file of LANGUAGE/ for each trigger. In them FOLDER, LANGUAGE, NAME and LEVEL stand for the app's folder, its
// FUNCTIONS_WORKER_RUNTIME, the function's name and its access level.
//
//go:embed templates
var templates embed.FS

// funcLanguages are the languages with templates.
var funcLanguages = []funcLanguage{
	{"javascript", "node", "V4", ".js", "npm install"},
	{"typescript", "node", "V4", ".ts", "npm install"},
	{"python", "python", "V2", ".py", "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt grpcio protobuf && " +
		".venv/bin/pip install --ignore-requires-python --no-deps azure-functions-runtime"},
}

type funcLanguage struct{ name, runtime, model, extension, install string }

func newFuncInitCommand() *cobra.Command {
	var language, runtime, model string
	var short []*bool // --python for --language python, as Core Tools have it
	var force bool
	cmd := &cobra.Command{
		Use:   "init [FOLDER]",
		Short: "Write the files of a new function app to a folder",
		Long: `Write the files of a new function app in Python (model v2), JavaScript or TypeScript (model v4) to a folder:
host.json, local.settings.json and those of the language. Files that exist already are left as they are; --force
replaces them.`,
		Example: `  lazuli func init shop --language typescript`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			for i, given := range short {
				if *given {
					language = funcLanguages[i].name
				}
			}
			l, err := chosenLanguage(language, runtime)
			if err != nil {
				return console.Usage(err)
			}
			if own := funcLanguages[l].model; model != "" && !strings.EqualFold(model, own) {
				return console.Usagef("func init: --model %s: the templates for %s are of model %s", model,
					funcLanguages[l].name, own)
			}
			return initApp(cmd, dir, l, force)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&language, "language", "", "python, javascript or typescript")
	fl.StringVar(&runtime, "worker-runtime", "", "as for Core Tools: python, node, or a language")
	fl.StringVar(&model, "model", "", "as for Core Tools: V2 for Python, V4 for JavaScript and TypeScript")
	for _, l := range funcLanguages {
		short = append(short, fl.Bool(l.name, false, "the same as --language "+l.name))
	}
	for _, name := range []string{"model", "python", "javascript", "typescript"} {
		fl.Lookup(name).Hidden = true
	}
	fl.BoolVar(&force, "force", false, "replace files that exist")
	return cmd
}

// chosenLanguage returns the index of the language that the flags name.
func chosenLanguage(language, runtime string) (int, error) {
	names := "python, javascript or typescript"
	for _, name := range []string{language, runtime} {
		if strings.EqualFold(name, "node") {
			name = "javascript"
		}
		if name == "" {
			continue
		}
		for i, l := range funcLanguages {
			if strings.EqualFold(l.name, name) {
				return i, nil
			}
		}
		return 0, fmt.Errorf("func init: no language is called %q; want %s", name, names)
	}
	return 0, fmt.Errorf("func init: --language is missing: %s", names)
}

func initApp(cmd *cobra.Command, dir string, language int, force bool) error {
	l := funcLanguages[language]
	full, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	folder := strings.ToLower(regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(filepath.Base(full), "-"))
	replace := strings.NewReplacer("FOLDER", strings.Trim(folder, "-"), "LANGUAGE", l.runtime)
	files := map[string]string{} // templates by the paths of the files
	for _, root := range []string{"templates/any", "templates/" + l.name + "/app"} {
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
			fmt.Fprintf(cmd.OutOrStdout(), "%s exists, and stays as it is\n", name)
			continue
		} else if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n", name)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(),
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

// funcTemplates are the triggers with a template, by the names of Core Tools.
var funcTemplates = []struct{ name, coreTools string }{
	{"http", "HTTP trigger"}, {"queue", "Azure Queue Storage trigger"}, {"blob", "Azure Blob Storage trigger"},
	{"timer", "Timer trigger"}, {"durable", "Durable Functions orchestrator"},
}

func templateNames() string {
	var names []string
	for _, t := range funcTemplates {
		names = append(names, t.name)
	}
	return strings.Join(names, ", ")
}

func newFuncNewCommand() *cobra.Command {
	var name, template, level, dir string
	cmd := &cobra.Command{
		Use:   "new [NAME]",
		Short: "Add a function to an app",
		Long: `Add a function to an app in Python (model v2: function_app.py), JavaScript or TypeScript (model v4: src/functions).
The templates are ` + templateNames() + `; their names in Core Tools, such as "HTTP trigger", do as well.`,
		Example: `  lazuli func new hello --template http`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				name = args[0]
			}
			text, err := newFunction(dir, name, template, level)
			if err != nil {
				return console.Usagef("func new: %w", err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&name, "name", "n", "", "name of the function")
	fl.StringVarP(&template, "template", "t", "", "template: "+templateNames())
	fl.StringVarP(&level, "authlevel", "a", "function",
		"who may call an HTTP function where keys are asked for: anonymous, function or admin")
	fl.StringVar(&dir, "dir", ".", "folder of the function app")
	return cmd
}

// newFunction writes a function and says what it has done.
func newFunction(dir, name, template, level string) (string, error) {
	language := slices.IndexFunc(funcLanguages, func(l funcLanguage) bool {
		switch l.name {
		case "python":
			return isFile(dir, "function_app.py")
		case "typescript":
			return isFile(dir, "package.json") && isFile(dir, "tsconfig.json")
		}
		return isFile(dir, "package.json") && !isFile(dir, "tsconfig.json")
	})
	if !isFile(dir, "host.json") || language < 0 {
		return "", fmt.Errorf("%s is not the folder of an app in Python (v2), JavaScript or TypeScript (v4): make one by "+
			"`lazuli func init --language ...`", dir)
	}
	l := funcLanguages[language]
	pattern := `^[A-Za-z][A-Za-z0-9_-]{0,126}$`
	if l.name == "python" {
		pattern = `^[A-Za-z][A-Za-z0-9_]{0,126}$`
	}
	if !regexp.MustCompile(pattern).MatchString(name) {
		return "", fmt.Errorf("%q is not a name for a function: want a letter, then letters, digits and _ "+
			"(`lazuli func new NAME`)", name)
	}
	chosen := ""
	for _, t := range funcTemplates {
		if strings.EqualFold(template, t.name) || strings.EqualFold(template, t.coreTools) {
			chosen = t.name
		}
	}
	if chosen == "" {
		return "", fmt.Errorf("no template is called %q: --template is one of %s", template, templateNames())
	}
	raw, err := templates.ReadFile(path.Join("templates", l.name, chosen+l.extension))
	if err != nil {
		return "", err
	}
	if level = strings.ToLower(level); !slices.Contains([]string{"anonymous", "function", "admin"}, level) {
		return "", fmt.Errorf("--authlevel is %q, not anonymous, function or admin", level)
	}
	if l.name == "python" {
		level = strings.ToUpper(level)
	}
	text := strings.NewReplacer("NAME", name, "LEVEL", level).Replace(string(raw))
	target := filepath.Join(dir, "src", "functions", name+l.extension)
	needs := ""
	switch {
	case l.name == "python" && chosen == "durable":
		target = filepath.Join(dir, name+l.extension)
		needs = "; it needs the package azure-functions-durable: add it to requirements.txt and install it"
	case l.name == "python":
		return "Added " + name + " to function_app.py", appendTo(filepath.Join(dir, "function_app.py"), name, text)
	case chosen == "durable":
		needs = "; it needs a package: npm install durable-functions"
	}
	if err := writeNew(target, text, false); err != nil {
		return "", err
	}
	if l.name == "python" {
		register := fmt.Sprintf("\n\nfrom %s import bp as %s_bp  # noqa: E402\n\napp.register_functions(%s_bp)\n", name, name,
			name)
		if err := appendTo(filepath.Join(dir, "function_app.py"), name+"_bp", register); err != nil {
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
