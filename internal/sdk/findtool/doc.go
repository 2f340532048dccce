// Package findtool finds what an account has by one text, for people: what the dashboard's page Search and
// `lazuli find` do. It works on any account through the official SDK, and so reads what it looks at; every call is
// bounded, says where it stopped, and can go on from there.
//
// It looks at the cheap places first:
//
//	names      of containers, queues and tables that begin with the text
//	keys       workflow instances and PartitionKeys that begin with it: a range of each table
//	blobs      names that begin with it: a listing of each container
//	messages   texts that contain it, without regard to case, and a message ID: every message of each queue
//	rows       RowKeys that begin with it: a scan of each table
package findtool
