// Package lease is the state machine of the lease of a blob or container. It is without I/O and without a clock: a
// transition takes the lease as it is stored and the time of the request, and returns the lease to store or an error.
//
// A [Request] is one of the five operations of Lease Blob and Lease Container. All other operations ask the lease
// whether it permits them ([Lease.CheckRead], [Lease.CheckWrite]), each with the errors of its kind of resource
// ([OfBlob], [OfContainer]).
package lease
