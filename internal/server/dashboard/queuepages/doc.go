// Package queuepages has the pages of queues with their messages, figures, jobs and schedules.
package queuepages
