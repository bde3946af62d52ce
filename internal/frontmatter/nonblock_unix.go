//go:build unix

package frontmatter

import "syscall"

const nonblock = syscall.O_NONBLOCK
