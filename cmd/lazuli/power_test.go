package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/crashimage"
)

// powerSteps are commands that change files and say that they are done, in a shell. Each step ends with "finished", and
// the files and folders that the step has written.
const powerSteps = `set -e
finished() { echo "finished $*"; }
start() {
  lazuli serve "$@" --blob-port $BLOB --queue-port $QUEUE --table-port $TABLE --admin-port $ADMIN --silent &
  n=0
  until lazuli health --admin-port $ADMIN; do n=$((n+1)); test $n -lt 100; sleep 0.2; done
}
stop() {
  kill $!
  wait $!
}
trap 'kill $! 2>/dev/null || true' EXIT
lazuli cert --dir certs
finished cert certs
lazuli account create shop --file accounts.json
finished account-create accounts.json
lazuli account rotate shop --key 1 --file accounts.json
finished account-rotate accounts.json
lazuli cluster init nodes
finished cluster-init nodes
start --location data --seed $SEED
lazuli table create people --connection-string "$CONNECTION"
lazuli queue put orders hello --create --connection-string "$CONNECTION"
lazuli blob create box --connection-string "$CONNECTION"
echo hello > text
lazuli blob put text box/text --connection-string "$CONNECTION"
lazuli export archive --connection-string "$CONNECTION"
finished export archive
lazuli backup place --admin-port $ADMIN
finished backup place
lazuli cluster export alone --connection-string "$CONNECTION"
finished cluster-export alone alone.transfer
stop
finished serve-seed data
start --in-memory
lazuli cluster import alone --connection-string "$CONNECTION"
finished cluster-import alone alone.transfer
lazuli import archive --overwrite --connection-string "$CONNECTION"
finished import archive
stop
lazuli import --azurite $AZURITE --location imported
finished import-azurite imported
mkdir $PWD/old
tar -xf $OLD -C old
find . -path './old*' -exec sync {} +
sync .
start --location old
stop
finished upgrade old
rm -rf old imported alone archive
sync .
lazuli restore place restored
finished restore restored
lazuli compact data
finished compact data
: > data/tables.db
sync data/tables.db
lazuli fsck --repair data || test $? = 5
finished fsck-repair data
lazuli cluster convert restored --cluster-node n1
finished convert restored
lazuli cluster convert restored --undo
finished convert-undo restored
`

// notSynced are the files that may differ after a power failure: none of them is data.
var notSynced = []string{"LOCK", "RESERVE", "MARKS", "index.db"}

// A command that has said that it is done has everything on disk that it wrote: the power fails as it returns, and its
// files are what they are without that, whichever of the changes that were not synced the disk has.
func TestPowerFailureAfterCommands(t *testing.T) {
	t.Parallel()
	if err := crashimage.Available(); err != nil {
		t.Skip(err)
	}
	ports := map[string]string{}
	for _, name := range []string{"BLOB", "QUEUE", "TABLE", "ADMIN"} {
		_, ports[name], _ = net.SplitHostPort(check.FreeAddress(t))
	}
	inputs := t.TempDir()
	seed, old := filepath.Join(inputs, "seed.yaml"), filepath.Join(inputs, "old.tar")
	check.OK(t, os.WriteFile(seed, []byte("tables: {seeded: [{PartitionKey: p, RowKey: r}]}\nqueues: {seeded: [first]}\n"+
		"containers: {seeded: {blobs: {text: hello}}}\n"), 0o600))
	// A folder of the first release, which the start of this one upgrades. Its databases are mostly zeros, which would
	// make the recording large: this archive leaves them out.
	check.OK(t, exec.Command("tar", "-xzf", "../../internal/server/testdata/format-0.1.0-stopped.tar.gz",
		"--one-top-level="+filepath.Join(inputs, "old")).Run())
	check.OK(t, exec.Command("tar", "-cSf", old, "--hole-detection=raw", "-C", filepath.Join(inputs, "old"), ".").Run())
	dir := t.TempDir()
	cmd := exec.Command("/bin/sh", "-c", powerSteps)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "SEED="+seed, "OLD="+old,
		"AZURITE="+check.Must(filepath.Abs("internal/azurite/testdata/3.37.0"))(t),
		fmt.Sprintf("CONNECTION=DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;"+
			"AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;"+
			"BlobEndpoint=http://127.0.0.1:%[1]s/devstoreaccount1;QueueEndpoint=http://127.0.0.1:%[2]s/devstoreaccount1;"+
			"TableEndpoint=http://127.0.0.1:%[3]s/devstoreaccount1", ports["BLOB"], ports["QUEUE"], ports["TABLE"]))
	for name, port := range ports {
		cmd.Env = append(cmd.Env, name+"="+port)
	}
	r := check.Must(crashimage.Record(dir, filepath.Join(t.TempDir(), "trace"), cmd))(t)
	finished := []string{}
	check.OK(t, r.Replay(func(n int, e crashimage.Event, d *crashimage.Disk) error {
		rest, ok := strings.CutPrefix(string(e.Data), "finished ")
		if e.Kind != crashimage.Print || !ok {
			return nil
		}
		words := strings.Fields(rest)
		finished = append(finished, words[0])
		if len(d.Files(words[1], crashimage.Killed, 1)) == 0 {
			t.Errorf("%s has written nothing", words[0])
		}
		for _, lost := range d.Lost(notSynced, words[1:]...) {
			t.Errorf("%s: %s", words[0], lost)
		}
		return nil
	}))
	// The name of the folder of a node, before what was in it goes.
	r.Order(t, "rename restored/cluster", "sync restored", "remove restored/cluster.undone")
	// All that an import has made, and then what makes it a data folder; at last, nothing of the stage is left.
	const stage = "imported/lazuli-import"
	for _, folder := range []string{"imported", stage} {
		r.Order(t, "sync "+stage+"/tables.db", "rename "+stage+"/tables.db", "sync "+folder, "rename "+stage+"/MANIFEST",
			"sync imported", "remove "+stage, "sync imported")
	}
	if len(finished) != strings.Count(powerSteps, "\nfinished ") {
		t.Errorf("these steps were seen: %v", finished)
	}
}
