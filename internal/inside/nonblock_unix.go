//go:build unix

package inside

import "syscall"

// NonBlock is the flag with which opening a FIFO does not wait for somebody who writes to it.
const NonBlock = syscall.O_NONBLOCK
