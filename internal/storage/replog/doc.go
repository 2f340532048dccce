// Package replog is a replicated, ordered log of records over one JetStream stream. Several nodes append to it, and
// each of them applies all valid records in the same order.
//
// # Use
//
//	log, err := replog.Open(ctx, replog.Config{Conn: conn, Name: "tables", Replicas: 3, Node: "n1"})
//	err = log.Follow(position, apply) // apply is called with every valid record after position, in order
//	err = log.Append(prev, payload)   // valid only if prev is still the last valid record
//	err = log.Barrier()               // every record that any node has appended before this call has been applied
//	s := log.Status()
//
// # Which records are valid
//
// A record names the valid record that its writer had applied last. It is valid if that is still the last valid record
// where it stands in the stream, and has no effect otherwise. So the content of the stream alone decides, and every
// node decides alike. JetStream's expected last sequence only keeps most of the invalid records out of the stream.
//
// A record has a writer and a counter. If the answer to a publish is lost, the same record is published again; of
// several copies at most the first is valid. The writer learns the outcome when it reads the log.
//
// With [Log.Begin] a record follows one whose outcome is not known: it names the sequence at which that is expected. If
// something else stands there, it is not valid.
//
// A record also has the checksum of the valid record before it. A node whose own history differs (for example because
// the stream lost records that the node has applied) stops with [ErrDiverged] before it applies anything else.
//
// # Reads
//
// JetStream does not offer linearizable reads. [Log.Barrier] asks for the confirmed end of the stream (Config.End), or
// else publishes a mark, a message without effect, and waits until this node has processed the stream up to there.
// Concurrent callers share a round.
//
// # How messages arrive
//
// The leader of the stream republishes each stored message to a subject that all nodes subscribe to. What is missed is
// read from the stream by sequence: first from any replica, then from the leader.
package replog
