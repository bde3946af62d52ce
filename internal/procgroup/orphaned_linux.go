package procgroup

import "syscall"

// orphaned has a command killed when this process is, however that happens. The system goes by the
// thread that started it, and Go keeps its threads.
func orphaned(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
