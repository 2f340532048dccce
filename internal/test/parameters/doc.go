// Package parameters guards against parameters that are accepted and ignored.
//
// parameters.txt lists every header, query parameter, element of a body and enumeration value that clients can send
// with each operation of the services. Its command, gen, reads them from the Azure SDK for Go, which is generated
// from the OpenAPI specifications.
//
// The test has a scene for each operation: a request that succeeds on a prepared account. It sends the request again
// for each parameter, with a value that must matter, and compares what can be observed: the answer, and what reads of
// the account return afterwards. A parameter without effect, which is not refused either, fails the test, unless
// exceptions.go names it with the reason.
//
// The headers that clients read of an answer are listed as well. Each must be in the answer of some scene, or in
// exceptions.go.
//
// After a new version of a specification, raise the versions in gen, write parameters.txt again, and give the new
// operations scenes.
package parameters
