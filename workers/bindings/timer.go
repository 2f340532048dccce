package bindings

// TimerInfo is what a timer hands to its handler.
type TimerInfo struct {
	Schedule       TimerSchedule       `json:"schedule"`
	ScheduleStatus TimerScheduleStatus `json:"scheduleStatus"`
	// IsPastDue is true when the run should have happened at an earlier time, at which no instance was up.
	IsPastDue bool `json:"isPastDue"`
}

// TimerSchedule describes the schedule.
type TimerSchedule struct {
	AdjustForDST bool `json:"adjustForDST"`
}

// TimerScheduleStatus holds times in RFC 3339.
type TimerScheduleStatus struct {
	Last        string `json:"last"`
	Next        string `json:"next"`
	LastUpdated string `json:"lastUpdated"`
}
