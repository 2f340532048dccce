package lint

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"

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

// composeFile holds what the tests need of a compose file.
type composeFile struct {
	Services map[string]struct {
		Ports, Volumes, Profiles []string
		Environment              map[string]string
		Command                  []string
		DependsOn                map[string]any `yaml:"depends_on"`
	}
	Volumes map[string]any
}

func readCompose(t *testing.T, name string) (file composeFile) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, name)), &file); err != nil {
		t.Fatal(err)
	}
	return file
}

// docker-compose.yml starts one server, and nothing else.
func TestComposeFile(t *testing.T) {
	file := readCompose(t, "docker-compose.yml")
	lazuli := file.Services["lazuli"]
	if len(file.Services) != 1 || len(lazuli.Profiles) > 0 {
		t.Errorf("services %v; want only lazuli", slices.Collect(maps.Keys(file.Services)))
	}
	c := config.Default()
	for i, port := range []int{c.Blob.Port, c.Queue.Port, c.Table.Port, c.Admin.Port} {
		want := fmt.Sprintf("127.0.0.1:%d:%d", port, port)
		if got := lazuli.Ports; len(got) != 4 || got[i] != want {
			t.Errorf("lazuli's ports are %q, want %s among them", got, want)
		}
		if want := fmt.Sprintf("EXPOSE %d", c.Blob.Port); !strings.Contains(read(t, "Dockerfile"), want) ||
			!strings.Contains(read(t, "Dockerfile"), fmt.Sprint(port)) {
			t.Errorf("the image does not expose %d", port)
		}
	}
	if r := loadArguments(t, append([]string{"serve"}, lazuli.Command...),
		environ(lazuli.Environment)...); len(r.Notes) > 0 || len(r.Roles.Enabled) > 0 {
		t.Errorf("lazuli's environment: %+v", r)
	}
}

func TestComposeFilesOfClusters(t *testing.T) {
	nodes, nats := readCompose(t, "docker/cluster.yml"), readCompose(t, "docker/nats.yml")
	for _, name := range []string{"n1", "n2", "n3"} {
		s := nodes.Services["node-"+name[1:]]
		if r := loadArguments(t, s.Command, environ(s.Environment)...); r.Cluster.Node != name || len(r.Cluster.Peers) != 3 {
			t.Errorf("%s: %+v", name, r.Cluster)
		}
	}
	nine := readCompose(t, "docker/cluster-nine.yml")
	for name, s := range nine.Services {
		r := loadArguments(t, s.Command, environ(s.Environment)...)
		if "node-"+r.Cluster.Node[1:] != name || len(r.Cluster.Peers) != 9 || r.Cluster.Copies != 3 || r.Shards != 36 {
			t.Errorf("%s: %+v", name, r.Cluster)
		}
	}
	front := nodes.Services["front"]
	// The image sets the folder, which a front-end does not have.
	r := loadArguments(t, front.Command, append(environ(front.Environment), "LAZULI_LOCATION=/data")...)
	if !r.Cluster.Front || len(r.Cluster.Peers) != 3 || len(front.Volumes) > 0 || len(front.Profiles) != 1 {
		t.Errorf("the front-end: %+v", r.Cluster)
	}
	result, err := config.Load(config.Sources{Environ: environ(nats.Services["lazuli"].Environment)})
	if err != nil || len(result.Notes) > 0 || result.NATS.Replicas != 3 ||
		strings.Count(result.NATS.URL, "nats://") != 3 || len(result.NATS.Monitors) != 3 {
		t.Errorf("the environment of the server on NATS: %v", err)
	}
	if len(nodes.Services) != 4 || len(nats.Services) != 4 || len(nine.Services) != 9 {
		t.Errorf("%d, %d and %d services, want 4, 4 and 9", len(nodes.Services), len(nats.Services), len(nine.Services))
	}
	for _, file := range []composeFile{nodes, nats, nine} {
		for name, s := range file.Services {
			for _, v := range s.Volumes {
				source, _, _ := strings.Cut(v, ":")
				if _, named := file.Volumes[source]; !named && !exists(top+"docker/"+source) {
					t.Errorf("%s: no volume or file %s", name, source)
				}
			}
			for other := range s.DependsOn {
				if _, ok := file.Services[other]; !ok {
					t.Errorf("%s depends on %s, which is not there", name, other)
				}
			}
		}
	}
}

// loadArguments reads the arguments of `lazuli serve`, and variables, as the command does.
func loadArguments(t *testing.T, arguments []string, environ ...string) *config.Result {
	t.Helper()
	if len(arguments) == 0 || arguments[0] != "serve" {
		t.Fatalf("the arguments are %q, want serve first", arguments)
	}
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	config.AddFlags(flags)
	err := flags.Parse(arguments[1:])
	if err == nil {
		var r *config.Result
		if r, err = config.Load(config.Sources{Flags: flags, Environ: environ}); err == nil && len(r.Notes) == 0 {
			return r
		}
	}
	t.Fatalf("%q: %v", arguments, err)
	return nil
}

// The arguments in the Kubernetes manifest are those of a node of a cluster.
func TestKubernetesManifest(t *testing.T) {
	found := 0
	for text := range strings.SplitSeq(read(t, "docs/kubernetes/cluster.yaml"), "\n---\n") {
		var doc struct {
			Spec struct {
				Template struct {
					Spec struct{ Containers []struct{ Args []string } }
				}
			}
		}
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		for _, c := range doc.Spec.Template.Spec.Containers {
			found++
			args := strings.Split(strings.ReplaceAll(strings.Join(c.Args, "\n"), "$(POD)", "lazuli-1"), "\n")
			r := loadArguments(t, args, "LAZULI_HOST=0.0.0.0", "LAZULI_ADMIN_HOST=0.0.0.0")
			if r.Cluster.Node != "lazuli-1" || len(r.Cluster.Peers) != 3 || r.Admin.Host != "127.0.0.1" {
				t.Errorf("got %+v, admin %s", r.Cluster, r.Admin.Host)
			}
		}
	}
	if found != 1 {
		t.Errorf("%d containers, want 1", found)
	}
}

// The nine nodes of the manifest with zones are those that each node has as peers, in the zones where their pods run.
func TestKubernetesManifestWithZones(t *testing.T) {
	var list struct {
		Items []struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct {
				Replicas int
				Template struct {
					Spec struct {
						NodeSelector map[string]string `yaml:"nodeSelector"`
						Containers   []struct{ Args []string }
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "docs/kubernetes/cluster-nine.yaml")), &list); err != nil {
		t.Fatal(err)
	}
	var pods []string
	var peers map[string]string
	for _, set := range list.Items {
		if set.Kind != "StatefulSet" {
			continue
		}
		for i := range set.Spec.Replicas {
			name := fmt.Sprintf("%s-%d", set.Metadata.Name, i)
			args := strings.Split(strings.ReplaceAll(strings.Join(set.Spec.Template.Spec.Containers[0].Args, "\n"), "$(POD)",
				name), "\n")
			r := loadArguments(t, args)
			peers = map[string]string{}
			for _, p := range r.Cluster.Peers {
				peers[p.Name] = p.Zone
			}
			zone := set.Spec.Template.Spec.NodeSelector["topology.kubernetes.io/zone"]
			if r.Cluster.Node != name || peers[name] != zone || zone == "" || r.Cluster.Copies != 3 || r.Shards != 36 {
				t.Errorf("%s in zone %q: %+v", name, zone, r.Cluster)
			}
			pods = append(pods, name)
		}
	}
	if len(pods) != 9 || len(peers) != 9 {
		t.Errorf("%d pods and %d peers, want 9", len(pods), len(peers))
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
