// Package logstore is a built-in role: it keeps logs as blobs that can be found again by service, time and level.
//
// It is the log data pattern of Azure's table design guide
// (https://learn.microsoft.com/azure/storage/tables/table-storage-design-patterns#log-data-anti-pattern), with the
// layout of Storage Analytics (https://learn.microsoft.com/rest/api/storageservices/about-storage-analytics-logging):
// lines are gathered in memory and written, by size or after some time, as blobs called
//
//	service/YYYY/MM/DD/hhmm/NNNNNN.log
//
// where the time is the UTC hour, or shorter slot, of the lines, and the number counts the blobs of one slot. A blob's
// metadata has the times of its first and last line (StartTime, EndTime), the levels of its lines (LogType) and their
// format (LogVersion).
//
// A [Writer] takes records from Go, also as a slog.Handler ([NewHandler]), or from a queue ([Register]): then the
// message is deleted once its line is in a blob. Each line is written at least once. One that was written twice, since
// a process died between the two, has the same ID both times, and queries return it once.
//
// A [Reader] finds lines of a time range and level. It lists the hours and days of the range by their prefixes, skips
// blobs whose metadata shows that they have no matching lines, and reads the others. It also reads the logs of Storage
// Analytics, in the container $logs, in which Lazuli keeps its request log.
//
// [Points] names the moments between the effects, for fault injection.
package logstore
