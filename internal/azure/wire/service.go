package wire

// Service is one of the three storage services.
type Service uint8

// The services. The zero value is not a service.
const (
	Blob Service = iota + 1
	Queue
	Table
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
	}
	return "unknown"
}
