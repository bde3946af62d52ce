package localfs

import (
	"os"
	"strings"
	"syscall"
)

// network returns the name of path's file system if that is a network's, else "".
func network(path string) (string, error) {
	var st syscall.Statfs_t
	for {
		err := syscall.Statfs(path, &st)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return "", &os.PathError{Op: "statfs", Path: path, Err: err}
		}
		break
	}
	const fuse = 0x65735546
	magic := uint32(st.Type)
	if magic != fuse {
		return byMagic(magic), nil
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", nil // nothing says that it is remote
	}
	return remoteFuse(fuseType(string(mounts), path)), nil
}

// byMagic names network file systems after the numbers of statfs(2) and linux/magic.h.
func byMagic(magic uint32) string {
	switch magic {
	case 0x6969:
		return "nfs"
	case 0xff534d42:
		return "cifs"
	case 0xfe534d42:
		return "smb2"
	case 0x517b:
		return "smbfs"
	case 0x01021997:
		return "9p"
	case 0x5346414f, 0x6b414653:
		return "afs"
	case 0x73757245:
		return "coda"
	case 0x564c:
		return "ncpfs"
	case 0x00c36400:
		return "ceph"
	case 0x0bd00bd0:
		return "lustre"
	case 0x47504653:
		return "gpfs"
	case 0x01161970:
		return "gfs2"
	case 0x7461636f:
		return "ocfs2"
	case 0x19830326:
		return "beegfs"
	}
	return ""
}

// fuseType finds the type of the mount that path lies on, "fuse.sshfs" for instance.
func fuseType(mountinfo, path string) (name string) {
	longest := -1
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		fields, types := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(types) == 0 {
			continue
		}
		// Of mounts on one place the last is the one seen.
		point := unescape.Replace(fields[4])
		if len(point) >= longest && (path == point || strings.HasPrefix(path, strings.TrimSuffix(point, "/")+"/")) {
			longest, name = len(point), types[0]
		}
	}
	return name
}

// remoteFuse returns which programs behind FUSE reach over a network.
func remoteFuse(name string) string {
	for _, remote := range []string{"sshfs", "s3fs", "rclone", "gcsfuse", "goofys", "glusterfs", "ceph", "davfs", "juicefs", "nfs", "smb",
		"curlftpfs", "mount-s3", "blobfuse", "seaweedfs", "afp"} {
		if strings.Contains(name, remote) {
			return name
		}
	}
	return ""
}
