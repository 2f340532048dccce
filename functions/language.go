package functions

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/lazuli-storage/lazuli/functions/internal/settings"
)

// languages are the languages of Azure Functions with files by which a function app in them is known.
var languages = []struct {
	runtime, name string
	files         []string
}{

	{"python", "Python", []string{"function_app.py", "requirements.txt", "*/__init__.py"}},

	{"node", "JavaScript or TypeScript", []string{"package.json", "*/index.js"}},

	{"dotnet-isolated", ".NET", []string{"*.csproj", "*.fsproj", "worker.config.json"}},

	{"dotnet", ".NET", []string{"*/run.csx"}},

	{"java", "Java", []string{"pom.xml", "build.gradle", "*.jar"}},

	{"powershell", "PowerShell", []string{"profile.ps1", "requirements.psd1", "*/run.ps1"}},
}

// languageOf returns the language of an app without a custom handler: its FUNCTIONS_WORKER_RUNTIME, its name, and by
// what it is known. All are empty if the language is not known.
func languageOf(dir string, s *settings.Settings) (runtime, name, evidence string) {
	set, _ := s.Get("FUNCTIONS_WORKER_RUNTIME")
	for _, l := range languages {
		if strings.EqualFold(l.runtime, set) {
			return l.runtime, l.name, "FUNCTIONS_WORKER_RUNTIME is " + set
		}
	}
	if set != "" && !strings.EqualFold(set, "custom") {
		return strings.ToLower(set), set, "FUNCTIONS_WORKER_RUNTIME is " + set
	}
	for _, l := range languages {
		for _, pattern := range l.files {
			if found, _ := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern))); len(found) > 0 {
				file, _ := filepath.Rel(dir, found[0])
				return l.runtime, l.name, "there is " + filepath.ToSlash(file)
			}
		}
	}
	return "", "", ""
}

// noHandler says why an app without a custom handler cannot run. err is that of LanguageWorkers.Find; nil if the
// language is not known, or the host has no language workers.
func noHandler(name, evidence string, err error) string {
	const without = "`lazuli func start` runs apps in Python, JavaScript, TypeScript, .NET (isolated) and Java, apps with " +
		"a custom handler, and those for whose language there is a worker"
	switch {
	case name == "":
		return without + "; FUNCTIONS_WORKER_RUNTIME says which"
	case err != nil:
		return fmt.Sprintf("this is a function app in %s (%s): %v", name, evidence, err)
	}
	return fmt.Sprintf("this is a function app in %s (%s), and this host has no language workers", name, evidence)
}
