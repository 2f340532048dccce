package hub

import "github.com/lazuli-storage/lazuli/internal/fault"

// The steps at which tests end the process or make a request fail.
var (
	pointStartSent = fault.Declare("durable/after-start-message") // of an instance, before its row is written
	pointCommit    = fault.Declare("durable/before-commit")       // of a checkpoint; its payloads are written
	pointCommitted = fault.Declare("durable/after-commit")        // nothing is sent yet
	pointSend      = fault.Declare("durable/before-send")         // of each message of a checkpoint
	pointSent      = fault.Declare("durable/after-sends")         // the row in Instances is not written yet
	// the messages that caused the checkpoint are not deleted yet
	pointInstance   = fault.Declare("durable/after-instance-row")
	pointDone       = fault.Declare("durable/after-checkpoint")       // all of it is done
	pointActivity   = fault.Declare("durable/before-activity")        // the work item is received
	pointResult     = fault.Declare("durable/before-activity-result") // the activity has run
	pointResultSent = fault.Declare("durable/after-activity-result")  // its work item is not deleted yet
	// it is in the inbox; the message that wakes the entity is not sent yet
	pointEntityPut       = fault.Declare("durable/after-entity-message")
	pointEntityRun       = fault.Declare("durable/before-entity")        // the batch is read
	pointEntityCommit    = fault.Declare("durable/before-entity-commit") // the batch has run
	pointEntityCommitted = fault.Declare("durable/after-entity-commit")  // nothing is sent yet
	pointEntitySent      = fault.Declare("durable/after-entity-sends")   // it is not noted that all is sent
	pointPurgeHistory    = fault.Declare("durable/purge-after-history")  // payloads and row are still there
	pointPurgePayloads   = fault.Declare("durable/purge-after-payloads") // the row is still there
)
