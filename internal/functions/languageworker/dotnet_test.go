package languageworker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/functions"
	"github.com/lazuli-storage/lazuli/internal/functions/durablefunc"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// dotnetVar names a folder with published .NET apps, each in a folder of its name, and their cases, expected-NAME.json;
// .ci/functions sets it.
const dotnetVar = "LAZULI_TEST_DOTNET"

// dotnetConfig copies a published app, and returns the configuration that runs it.
func dotnetConfig(t testing.TB, connection, app string, environ ...string) functions.Config {
	t.Helper()
	folder := os.Getenv(dotnetVar)
	if folder == "" {
		t.Skip("set " + dotnetVar + " to a folder with published .NET apps")
	}
	dir := filepath.Join(t.TempDir(), app)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(folder, app))); err != nil {
		t.Fatal(err)
	}
	return functions.Config{Dir: dir, ConnectionString: connection, Environ: append(os.Environ(), environ...),
		Workers: Runtime{}, Durable: durablefunc.Runtime{}}
}

const functionsPort = 7071

// dotnetCases runs all cases of an app on an empty account.
func dotnetCases(t *testing.T, app string) {
	c := dotnetConfig(t, lazulitest.Start(t).ConnectionString(), app)
	c.Port = functionsPort // For WEBSITE_HOSTNAME; the host listens elsewhere.
	r := run(t, c)
	r.runCases(t, readCases(t, filepath.Join(os.Getenv(dotnetVar), "expected-"+app+".json"), r.url,
		filepath.ToSlash(r.dir)))
}

func TestDotNetCases(t *testing.T) {
	t.Parallel()
	dotnetCases(t, "all")
}

func TestDotNetCasesASPNET(t *testing.T) {
	t.Parallel()
	dotnetCases(t, "aspnet")
}
