package internal

import "testing"

// TestBackoff checks that a failed job is retried later every time.
func TestBackoff(t *testing.T) {}
