// Command build makes the files of a release: programs for each platform with their archives, packages of npm and
// wheels of Python around them, Debian and RPM packages, an image for containers, a bill of materials, and checksums.
// It is started by packaging/release.
//
// The same commit, version and Go release give the same bytes: no file has the time, the user or the folder of the
// build. Times are those of the commit.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The tools, which the go command builds from their modules.
const (
	nfpm      = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2"
	cyclonedx = "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0"
)

// platform is a system that a release has a program for.
type platform struct {
	os, arch string
	npmOS    string   // as Node.js names it in process.platform
	npmArch  string   // and in process.arch
	wheel    []string // platform tags of Python's wheels
}

// The programs are static: they need no C library, of any version.
var platforms = []platform{
	{"linux", "amd64", "linux", "x64", []string{"manylinux_2_17_x86_64", "manylinux2014_x86_64", "musllinux_1_1_x86_64"}},
	{"linux", "arm64", "linux", "arm64",
		[]string{"manylinux_2_17_aarch64", "manylinux2014_aarch64", "musllinux_1_1_aarch64"}},
	{"darwin", "amd64", "darwin", "x64", []string{"macosx_12_0_x86_64"}},
	{"darwin", "arm64", "darwin", "arm64", []string{"macosx_12_0_arm64"}},
	{"windows", "amd64", "win32", "x64", []string{"win_amd64"}},
	{"windows", "arm64", "win32", "arm64", []string{"win_arm64"}},
}

func (p platform) String() string { return p.os + "-" + p.arch }

// The programs of a release. Only those who search need the second one, which lazuli starts.
const (
	server = "lazuli"
	search = "lazuli-search"
)

// program is the name of a program's file.
func (p platform) program(name string) string {
	if p.os == "windows" {
		return name + ".exe"
	}
	return name
}

// release is a release that is made.
type release struct {
	version, commit string
	date            time.Time // of the commit
	root, out       string    // folders of the source and of the files that are made
}

// binary is the path of a platform's program.
func (r *release) binary(p platform, name string) string {
	return filepath.Join(r.out, "bin", p.String(), p.program(name))
}

// base is the name of the program in a file of the release.
func (r *release) path(format string, args ...any) string {
	return filepath.Join(r.out, fmt.Sprintf(format, args...))
}

func main() {
	r := &release{}
	flag.StringVar(&r.version, "version", "", "`number` of the release, such as 0.1.0")
	flag.StringVar(&r.out, "out", "dist", "`folder` for the files; it is replaced")
	only := flag.String("platforms", "", "`list` of platforms, such as linux-amd64,darwin-arm64 (default: all)")
	parts := flag.String("parts", "archives,packages,image,npm,python,chart,sbom",
		"`list` of what is made from the programs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := r.make(ctx, list(*only), list(*parts)); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func list(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' })
}

func (r *release) make(ctx context.Context, only, parts []string) error {
	if !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(r.version) {
		return fmt.Errorf("the version %q is not of the form 0.1.0", r.version)
	}
	chosen := platforms
	if len(only) > 0 {
		chosen = slices.DeleteFunc(slices.Clone(platforms),
			func(p platform) bool { return !slices.Contains(only, p.String()) })
		if len(chosen) != len(only) {
			return fmt.Errorf("the platforms are %v", platforms)
		}
	}
	var err error
	if r.root, err = output(ctx, "git", "rev-parse", "--show-toplevel"); err != nil {
		return err
	}
	if r.commit, err = output(ctx, "git", "rev-parse", "HEAD"); err != nil {
		return err
	}
	// The date of the commit and not of the build: two builds of one commit must have the same bytes.
	text, err := output(ctx, "git", "show", "--no-patch", "--format=%cI", "HEAD")
	if err != nil {
		return err
	}
	if r.date, err = time.Parse(time.RFC3339, text); err != nil {
		return err
	}
	r.date = r.date.UTC()
	if r.out, err = filepath.Abs(r.out); err != nil {
		return err
	}
	// Files of an earlier run would get into the checksums.
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	// Programs first: every part packs them.
	for _, p := range chosen {
		for _, name := range []string{server, search} {
			if err := r.compile(ctx, p, name); err != nil {
				return fmt.Errorf("%s for %v: %w", name, p, err)
			}
		}
	}
	makers := map[string]func(context.Context, []platform) error{"archives": r.archives, "packages": r.packages,
		"image": r.image,
		"npm":   r.npm, "python": r.python, "chart": r.chart, "sbom": r.sbom}
	for _, part := range parts {
		make, ok := makers[part]
		if !ok {
			return fmt.Errorf("there is no part %q", part)
		}
		if err := make(ctx, chosen); err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
		fmt.Println("made", part)
	}
	// Last, over all that was made.
	return r.checksums()
}

// compile builds a program of a platform, with the version in it.
func (r *release) compile(ctx context.Context, p platform, name string) error {
	const pkg = "github.com/lazuli-storage/lazuli/internal/buildinfo"
	flags := fmt.Sprintf("-s -w -buildid= -X %[1]s.version=%[2]s -X %[1]s.commit=%[3]s -X %[1]s.date=%[4]s", pkg,
		r.version, r.commit, r.date.Format(time.RFC3339))
	profile := "off"
	if name == server {
		profile = filepath.Join(r.root, "packaging/server.pgo")
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-pgo", profile, "-ldflags", flags,
		"-o", r.binary(p, name), "./cmd/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOFLAGS=", "GOAMD64=v1",
		"GOARM64=v8.0")
	return run(cmd, r.root)
}

// packages makes the Debian and RPM packages.
func (r *release) packages(ctx context.Context, chosen []platform) error {
	for _, p := range chosen {
		if p.os != "linux" {
			continue
		}
		for name, config := range map[string]string{server: "nfpm.yaml", search: "nfpm-search.yaml"} {
			if err := r.packagesOf(ctx, p, name, filepath.Join(r.root, "packaging/linux", config)); err != nil {
				return err
			}
		}
	}
	return nil
}

// packagesOf makes the Debian and the RPM package of a program.
func (r *release) packagesOf(ctx context.Context, p platform, name, configFile string) error {
	config, err := os.ReadFile(configFile)
	if err != nil {
		return err
	}
	values := map[string]string{"ARCH": p.arch, "VERSION": r.version, "BINARY": r.binary(p, name),
		"DATE": r.date.Format(time.RFC3339)}
	file := r.path("nfpm-%s-%v.yaml", name, p)
	if err := os.WriteFile(file, []byte(os.Expand(string(config), func(name string) string { return values[name] })),
		0o644); err != nil {
		return err
	}
	for kind, arch := range map[string]string{"deb": p.arch,
		"rpm": map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[p.arch]} {
		target := r.path("%s_%s_%s.%s", name, r.version, arch, kind)
		if err := run(tool(ctx, nfpm, "package", "--config", file, "--packager", kind, "--target", target),
			r.root); err != nil {
			return err
		}
	}
	return os.Remove(file)
}

// sbom makes the bills of materials, of the modules that are linked into each program, in CycloneDX's format.
func (r *release) sbom(ctx context.Context, _ []platform) error {
	return errors.Join(r.sbomOf(ctx, server), r.sbomOf(ctx, search))
}

func (r *release) sbomOf(ctx context.Context, name string) error {
	file := r.path("%s_%s.cdx.json", name, r.version)
	if err := run(tool(ctx, cyclonedx, "app", "-json", "-noserial", "-licenses=false", "-std=false", "-main", "cmd/"+name,
		"-output", file), r.root); err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var bill map[string]any
	if err := json.Unmarshal(text, &bill); err != nil {
		return err
	}
	metadata, ok := bill["metadata"].(map[string]any)
	if !ok {
		return errors.New("the bill has no metadata")
	}
	metadata["timestamp"] = r.date.Format(time.RFC3339) // it was the time of the build
	if text, err = json.MarshalIndent(bill, "", "  "); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// tool is a command of a module, built for this machine.
func tool(ctx context.Context, module string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "go", append([]string{"run", module}, args...)...)
}

func run(cmd *exec.Cmd, folder string) error {
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return nil
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%s %v: %w\n%s", name, args, err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
