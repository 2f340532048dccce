package largeentity

import "github.com/lazuli-storage/lazuli/internal/fault"

// The moments before and after each effect.
var (
	pointBeforeReserve      = fault.Declare("large-entity/before-reserve")
	pointAfterReserve       = fault.Declare("large-entity/after-reserve")
	pointBeforeBlob         = fault.Declare("large-entity/before-blob")
	pointAfterBlob          = fault.Declare("large-entity/after-blob")
	pointBeforeEntity       = fault.Declare("large-entity/before-entity")
	pointAfterEntity        = fault.Declare("large-entity/after-entity")
	pointBeforeDelete       = fault.Declare("large-entity/before-delete-entity")
	pointAfterDelete        = fault.Declare("large-entity/after-delete-entity")
	pointBeforeRemove       = fault.Declare("large-entity/before-remove-blob")
	pointAfterRemove        = fault.Declare("large-entity/after-remove-blob")
	pointBeforeFence        = fault.Declare("large-entity/before-fence")
	pointAfterFence         = fault.Declare("large-entity/after-fence")
	pointBeforeRemoveOrphan = fault.Declare("large-entity/before-remove-orphan")
	pointAfterRemoveOrphan  = fault.Declare("large-entity/after-remove-orphan")
)

// Points returns the role's fault points: those of writes, of deletes, and of the sweeper, each in the order in which
// they are passed.
func Points() []string {
	return []string{
		string(pointBeforeReserve), string(pointAfterReserve), string(pointBeforeBlob), string(pointAfterBlob),
		string(pointBeforeEntity), string(pointAfterEntity),
		string(pointBeforeDelete), string(pointAfterDelete), string(pointBeforeRemove), string(pointAfterRemove),
		string(pointBeforeFence), string(pointAfterFence), string(pointBeforeRemoveOrphan), string(pointAfterRemoveOrphan),
	}
}
