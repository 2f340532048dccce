package lint

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/lazuli-storage/lazuli/internal/server/config"
)

const top = "../../../"

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(top + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The image is built from the files that .dockerignore admits: a package that is missing there breaks only that build.
func TestImageHasEveryPackage(t *testing.T) {
	allowed := strings.Fields(read(t, ".dockerignore"))
	for _, p := range list(t, "./...") {
		folder, _, _ := strings.Cut(p.name(), "/")
		if folder != "lazulitest" && !slices.Contains(allowed, "!"+folder) {
			t.Errorf(".dockerignore keeps %s out of the image's build", p.name())
		}
	}
}

func TestComposeFile(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Profiles, Ports, Volumes []string
			Build, Image             string
			Environment              map[string]string
			DependsOn                map[string]any `yaml:"depends_on"`
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal([]byte(read(t, "docker-compose.yml")), &file); err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	for i, port := range []int{c.Blob.Port, c.Queue.Port, c.Table.Port, c.Admin.Port} {
		want := fmt.Sprintf("127.0.0.1:%d:%d", port, port)
		if got := file.Services["lazuli"].Ports; len(got) != 4 || got[i] != want {
			t.Errorf("lazuli's ports are %q, want %s among them", got, want)
		}
		if want := fmt.Sprintf("EXPOSE %d", c.Blob.Port); !strings.Contains(read(t, "Dockerfile"), want) || !strings.Contains(read(t, "Dockerfile"), fmt.Sprint(port)) {
			t.Errorf("the image does not expose %d", port)
		}
	}
	if len(file.Services["lazuli"].Profiles) != 0 {
		t.Error("lazuli does not start by itself")
	}
	cluster := file.Services["lazuli-cluster"]
	result, err := config.Load(config.Sources{Environ: environ(cluster.Environment)})
	if err != nil || len(result.Notes) > 0 || result.NATS.Replicas != 3 || strings.Count(result.NATS.URL, "nats://") != 3 {
		t.Errorf("lazuli-cluster's environment: %v, %+v", err, result)
	}
	nodes := 0
	for name, s := range file.Services {
		if strings.HasPrefix(name, "nats-") {
			nodes++
		}
		if name != "lazuli" && !slices.Equal(s.Profiles, []string{"cluster"}) {
			t.Errorf("%s has profiles %q", name, s.Profiles)
		}
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if _, named := file.Volumes[source]; !named && !exists(top+source) {
				t.Errorf("%s: no volume or file %s", name, source)
			}
		}
		for other := range s.DependsOn {
			if _, ok := file.Services[other]; !ok {
				t.Errorf("%s depends on %s, which is not there", name, other)
			}
		}
	}
	if nodes != 3 {
		t.Errorf("the cluster has %d nodes, want 3", nodes)
	}
}

// The variables that the image sets are options.
func TestImageEnvironment(t *testing.T) {
	line := regexp.MustCompile(`(?m)^ENV (.*)$`).FindStringSubmatch(read(t, "Dockerfile"))
	if line == nil {
		t.Fatal("no ENV line")
	}
	r, err := config.Load(config.Sources{Environ: strings.Fields(line[1])})
	if err != nil || len(r.Notes) > 0 || r.Location != "/data" || r.Blob.Host != "0.0.0.0" || r.Admin.Host != "0.0.0.0" {
		t.Errorf("got %+v, %v", r, err)
	}
}

func environ(m map[string]string) (list []string) {
	for k, v := range m {
		list = append(list, k+"="+v)
	}
	return list
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	fence   = regexp.MustCompile("(?ms)^```.*?^```")
)

// Links between the documents have an existing target, headings included.
func TestLinksLeadSomewhere(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "*/*/*.md", "*/*/*/*.md", "examples/*.md"} {
		found, err := filepath.Glob(top + pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	if len(pages) < 8 {
		t.Fatalf("found %d pages", len(pages))
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
			u, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if u.Scheme != "" {
				continue
			}
			target := page
			if u.Path != "" {
				target = filepath.Join(filepath.Dir(page), u.Path)
			}
			if !exists(target) {
				t.Errorf("%s: nothing at %s", page, m[1])
			} else if u.Fragment != "" && !hasHeading(t, target, u.Fragment) {
				t.Errorf("%s: no heading for %s", page, m[1])
			}
		}
	}
}

// hasHeading reports whether a page has a heading whose anchor on code hosts is fragment.
func hasHeading(t *testing.T, page, fragment string) bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
		anchor := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(anchor, " ", "-") == fragment {
			return true
		}
	}
	return false
}
