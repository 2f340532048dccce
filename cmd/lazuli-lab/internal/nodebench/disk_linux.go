package nodebench

import (
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/fusedisk"
)

// slowDisk makes folder a disk whose syncs take some time; its files are in files.
func slowDisk(folder, files string, sync time.Duration) (unmount func() error, err error) {
	return fusedisk.MountSlow(folder, files, sync)
}
