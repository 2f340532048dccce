// Package contentstream keeps the copies of extents in JetStream streams of an external NATS cluster. Servers without a
// role of their own share the content there: any number of them, whose folders may be lost.
//
// Each extent has a stream. A record is one message, or two if it is too large for one:
//
//	stream    LAZULI_CONTENT_<extent>
//	subject   lazuli.extent.<extent>.<offset / 1 MiB>.<offset>.<0 or 1>    numbers in hexadecimal; the offset of the record in the extent
//	data      the record with its header, see package extent; or the first and the second half of it
//
// A record never changes, and its header has the extent and the offset in its checksum. So a message that is there
// twice, after a lost acknowledgement, does no harm, and no message can be taken for another one. Content is
// acknowledged when JetStream has acknowledged all of its messages: a majority of the stream's replicas has them.
// Reading asks for the newest message of a subject. The part of the subject with MiB serves to find a record of which a
// position inside is known.
//
// Streams are deleted as a whole. Messages are never removed one by one, and the streams' configuration denies it.
//
// An extent has one owner, which alone writes it. Each process answers for its number as an owner (Alive).
package contentstream
