package wire

// Service is one of the three storage services, or the second endpoint of one.
type Service uint8

// The services. The zero value is not a service.
const (
	Blob Service = iota + 1
	Queue
	Table
	// DataLake is the dfs endpoint of the Blob service. Its requests are requests of that service: they have the service
	// Blob.
	DataLake
)

// String returns the name that Azure uses in host names, logs and SAS tokens' documentation: "blob", "queue", "table".
func (s Service) String() string {
	switch s {
	case Blob:
		return "blob"
	case Queue:
		return "queue"
	case Table:
		return "table"
	case DataLake:
		return "dfs"
	}
	return "unknown"
}
