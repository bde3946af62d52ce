package internal

import "time"

// backoff gives the pause before a failed job is retried. It starts at one second and
// doubles with every attempt, up to an hour.
//
//	pause := backoff(3) // a failed job is retried after four seconds
func backoff(attempt int) time.Duration {
	return min(time.Second<<(attempt-1), time.Hour)
}
