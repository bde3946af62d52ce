//go:build !linux

package main

import (
	"os"
	"time"
)

func datasync(f *os.File) error { return f.Sync() }

func processor() time.Duration { return 0 } // unknown
