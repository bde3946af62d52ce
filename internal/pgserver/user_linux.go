package pgserver

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// asUser lets a command run as a user that Postgres accepts, which root is not, and end
// with the test that started it.
func asUser(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGQUIT}
	if uid, gid, err := unprivileged(); err == nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
}

// own gives a folder to that user.
func own(dir string) error {
	uid, gid, err := unprivileged()
	if err != nil {
		return nil
	}
	return os.Chown(dir, int(uid), int(gid))
}

// unprivileged returns the user that stands in for root, with an error if we are not root.
func unprivileged() (uid, gid uint32, err error) {
	if os.Geteuid() != 0 {
		return 0, 0, errors.New("not root")
	}
	for _, name := range []string{"postgres", "nobody"} {
		var u *user.User
		if u, err = user.Lookup(name); err != nil {
			continue
		}
		id, err1 := strconv.ParseUint(u.Uid, 10, 32)
		group, err2 := strconv.ParseUint(u.Gid, 10, 32)
		return uint32(id), uint32(group), errors.Join(err1, err2)
	}
	return 0, 0, err
}
