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

// Build builds the .NET app of a folder of source, as Core Tools do, and returns the folder to start. Other folders are
// returned as they are. noBuild: the output of an earlier build is started.
func Build(ctx context.Context, dir string, noBuild bool, out io.Writer) (string, error) {
	if !IsProject(dir) {
		return dir, nil
	}
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
