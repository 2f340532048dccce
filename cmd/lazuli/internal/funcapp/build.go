package funcapp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// buildFolder is the folder of a .NET project into which it is built, that of Core Tools.
const buildFolder = "bin/output"

// projects are the .NET projects of a folder. Core Tools write extensions.csproj for apps in other languages.
func projects(dir string) []string {
	var list []string
	for _, pattern := range []string{"*.csproj", "*.fsproj"} {
		found, _ := filepath.Glob(filepath.Join(dir, pattern))
		list = append(list, found...)
	}
	return slices.DeleteFunc(list, func(p string) bool { return strings.EqualFold(filepath.Base(p), "extensions.csproj") })
}

// IsProject reports whether a folder has the source of a .NET app, rather than the output of a build.
func IsProject(dir string) bool {
	return len(projects(dir)) > 0 && !isFile(dir, "worker.config.json")
}

// mavenProject is the file of a Java project, and mavenFolder that of its apps: the Maven plugin for Azure Functions
// writes one for each appName, with a function.json for each function.
const (
	mavenProject = "pom.xml"
	mavenFolder  = "target/azure-functions"
)

// isMaven reports whether a folder has the source of a Java app, rather than an app for a custom handler in Java, whose
// functions have folders of their own.
func isMaven(dir string) bool {
	if !isFile(dir, mavenProject) || !isFile(dir, "host.json") {
		return false
	}
	written, _ := filepath.Glob(filepath.Join(dir, "*", "function.json"))
	return len(written) == 0 && !isFile(dir, "function_app.py") && !isFile(dir, "package.json")
}

// buildMaven is Build for a Java project.
func buildMaven(ctx context.Context, dir string, noBuild bool, out io.Writer) (string, error) {
	if !noBuild {
		mvn, err := exec.LookPath("mvn")
		if err != nil {
			return "", fmt.Errorf("func start: %s has the source of a Java app, and there is no mvn on the path to build it: "+
				"install Maven, or build elsewhere and start %s/NAME", dir, mavenFolder)
		}
		cmd := exec.CommandContext(ctx, mvn, "--quiet", "--batch-mode", "-DskipTests", "package")
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("func start: mvn -DskipTests package in %s: %w", dir, err)
		}
	}
	apps, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(mavenFolder), "*", "host.json"))
	if err != nil {
		return "", err
	}
	switch {
	case len(apps) == 0 && noBuild:
		return "", fmt.Errorf("func start: --no-build: %s has no app in %s; build it by `mvn -DskipTests package`", dir,
			mavenFolder)
	case len(apps) == 0:
		return "", fmt.Errorf("func start: the build of %s writes no app to %s: the project needs the plugin "+
			"azure-functions-maven-plugin with the goal package", dir, mavenFolder)
	case len(apps) > 1:
		return "", fmt.Errorf("func start: %s has %d apps in %s; start the folder of one", dir, len(apps), mavenFolder)
	}
	output := filepath.Dir(apps[0])
	return output, copySettings(dir, output)
}

// Build builds the .NET or Java app of a folder of source, the former as Core Tools do, and returns the folder to
// start. Other folders are returned as they are. noBuild: the output of an earlier build is started.
func Build(ctx context.Context, dir string, noBuild bool, out io.Writer) (string, error) {
	if isMaven(dir) {
		return buildMaven(ctx, dir, noBuild, out)
	}
	if !IsProject(dir) {
		return dir, nil
	}
	// func start recognises an output by its worker.config.json. Without the checks here a build that gives none would
	// end with an error about a missing worker.
	list, output := projects(dir), filepath.Join(dir, filepath.FromSlash(buildFolder))
	if noBuild {
		if !isFile(output, "worker.config.json") {
			return "", fmt.Errorf("func start: --no-build: %s has no output of a build; start the folder that has one", output)
		}
		return output, nil
	}
	if len(list) > 1 {
		return "", fmt.Errorf("func start: %s has %d projects; build the one to start (`dotnet build`), and start its output",
			dir, len(list))
	}
	dotnet, err := exec.LookPath("dotnet")
	if err != nil {
		return "", fmt.Errorf("func start: %s has the source of a .NET app, and there is no dotnet on the path to build it: "+
			"install the .NET SDK, or run `dotnet publish` elsewhere and start the published folder", dir)
	}
	cmd := exec.CommandContext(ctx, dotnet, "build", filepath.Base(list[0]), "--output", filepath.FromSlash(buildFolder))
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("func start: dotnet build %s: %w", filepath.Base(list[0]), err)
	}
	if !isFile(output, "worker.config.json") {
		return "", fmt.Errorf("func start: the build of %s gives no worker.config.json: the project needs the package "+
			"Microsoft.Azure.Functions.Worker.Sdk, and OutputType Exe", filepath.Base(list[0]))
	}
	return output, copySettings(dir, output)
}

// copySettings gives an output the settings of the source if the project does not copy them.
func copySettings(from, to string) error {
	const name = "local.settings.json"
	if isFile(to, name) {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(from, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return disk.WriteFile(to, name, text)
}
