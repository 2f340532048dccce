package customhandler

import (
	"fmt"
	"path/filepath"
	"strings"
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

// noHandler says why an app without a custom handler cannot run. Apps in the languages of Azure Functions have none:
// the Functions host starts a worker process of the language for them, by a protocol (gRPC) that this host does not
// speak.
func noHandler(dir string, s *settings) string {
	const without = "`lazuli func start` runs apps with a custom handler only"
	name, evidence := "", ""
	runtime, _ := s.get("FUNCTIONS_WORKER_RUNTIME")
	for _, l := range languages {
		if strings.EqualFold(l.runtime, runtime) {
			name, evidence = l.name, "FUNCTIONS_WORKER_RUNTIME is "+runtime
			break
		}
	}
	for _, l := range languages {
		for _, pattern := range l.files {
			if found, _ := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern))); name == "" && len(found) > 0 {
				file, _ := filepath.Rel(dir, found[0])
				name, evidence = l.name, "there is "+filepath.ToSlash(file)
			}
		}
	}
	if name == "" {
		return without
	}
	return fmt.Sprintf("this is a function app in %s (%s), which needs the language worker of Azure Functions; %s. "+
		"Azure Functions Core Tools run it on Lazuli's storage: set AzureWebJobsStorage to Lazuli's connection string and "+
		"use `func start`", name, evidence, without)
}
