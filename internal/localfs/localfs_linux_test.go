package localfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLocal(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "not", "there", "yet"), "/", "/proc/self"} {
		if err := Check(path, "x"); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestRemoteNames(t *testing.T) {
	for magic, want := range map[uint32]string{0x6969: "nfs", 0xff534d42: "cifs", 0x01021997: "9p", 0xef53: "", 0x01021994: "", 0x9123683e: ""} {
		if got := byMagic(magic); got != want {
			t.Errorf("%x is %q, want %q", magic, got, want)
		}
	}
	const mounts = `22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 0:40 / /mnt/far rw shared:1 - fuse.sshfs host:/ rw
31 22 0:41 / /mnt/far/near\040by rw - fuse.bindfs /x rw
32 22 0:42 / /mnt/ntfs rw - fuseblk /dev/sdb rw
`
	for path, want := range map[string]string{
		"/mnt/far": "fuse.sshfs", "/mnt/far/a": "fuse.sshfs", "/mnt/farther": "", "/mnt/far/near by/b": "", "/mnt/ntfs/a": "", "/": "",
	} {
		if got := remoteFuse(fuseType(mounts, path)); got != want {
			t.Errorf("%s is on %q, want %q", path, got, want)
		}
	}
}

func TestRefusal(t *testing.T) {
	err := refuse("/mnt/far", "nfs", "AllowNetwork")
	if err == nil || !strings.Contains(err.Error(), "locks are unreliable on nfs: ") || !strings.Contains(err.Error(), "local disk or set AllowNetwork") {
		t.Error(err)
	}
}

func ExampleCheck() {
	if err := Check(os.TempDir(), "AllowNetwork"); err != nil {
		panic(err)
	}
	// Output:
}
