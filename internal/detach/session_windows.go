package detach

import "syscall"

// session returns what gives the process a group and no console.
func session() *syscall.SysProcAttr {
	const detachedProcess = 0x8
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP | detachedProcess}
}
