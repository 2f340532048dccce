package bindings

// TimerInfo is the argument of a timer handler.
type TimerInfo struct {
	Schedule       TimerSchedule       `json:"schedule"`
	ScheduleStatus TimerScheduleStatus `json:"scheduleStatus"`
	// IsPastDue is true if the run was due earlier, while no instance was running.
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
