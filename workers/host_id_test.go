package workers

import (
	"context"
	"strings"
	"testing"
)

func TestHostIDsDistinguishPrograms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ importPath, executable, want string }{
		{"example.com/shop/cmd/worker", "/tmp/go-build1/b001/exe/worker", "worker-"},
		{"example.com/other/cmd/worker", "/tmp/go-build2/b001/exe/worker", "worker-"},
		{"command-line-arguments", "/tmp/go-build3/b001/exe/main", "main-"},
		{"", `/opt/Shop Worker.exe`, "shop-worker-"},
		{"example.com/" + strings.Repeat("long", 20), "", "longlonglonglonglonglon-"},
	} {
		got := hostIDOf(c.importPath, c.executable)
		if !strings.HasPrefix(got, c.want[:strings.LastIndex(c.want, "-")+1]) {
			t.Errorf("host ID of %s, %s: %s, want %s…", c.importPath, c.executable, got, c.want)
		}
		if !hostIDs().MatchString(got) || len(got) > 32 {
			t.Errorf("host ID %q is not valid", got)
		}
		if again := hostIDOf(c.importPath, c.executable); again != got {
			t.Errorf("host ID of %s is %s, then %s", c.importPath, got, again)
		}
	}
	if a, b := hostIDOf("example.com/shop/cmd/worker", ""), hostIDOf("example.com/other/cmd/worker", ""); a == b {
		t.Errorf("two programs have the host ID %s", a)
	}
	if New(Config{}).config.HostID == "lazuli" {
		t.Error("the default host ID is a constant")
	}
}

func TestStartRefusesAHostIDThatCannotBePartOfABlobName(t *testing.T) {
	t.Parallel()
	a := New(Config{HostID: "shop/worker", Storage: &Storage{}})
	a.Queue("orders", func(context.Context, QueueMessage) error { return nil })
	if err := a.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "HostID") {
		t.Errorf("start: %v", err)
	}
}
