//go:build !unix

package recipe_test

import (
	"testing"
	"time"
)

var began = time.Now()

// spent returns how long this process has run.
func spent(*testing.T) time.Duration { return time.Since(began) }
