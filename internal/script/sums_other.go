//go:build !linux

package script

import "io/fs"

func stampOf(fs.FileInfo) (stamp, bool) { return stamp{}, false }
