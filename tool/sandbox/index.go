package sandbox

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // the checksum of Git's index
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A mark makes Git look at a file as unchanged: assume-unchanged or skip-worktree.
type mark struct {
	path string
	at   int  // of the byte in the index
	bit  byte // in it
}

var errIndex = errors.New("it is no index of Git that is known")

// marks lists the marks in an index of Git: gitformat-index(5).
func marks(b []byte) ([]mark, error) {
	if len(b) < 32 || string(b[:4]) != "DIRC" {
		return nil, errIndex
	}
	version, count := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	if version < 2 || version > 4 {
		return nil, errIndex
	}
	const flags, extended = 60, 62 // within an entry, behind its times, numbers and SHA-1
	var out []mark
	name, at, end := "", 12, len(b)-sha1.Size
	for range count {
		if at+extended+2 > end {
			return nil, errIndex
		}
		var bits []mark
		from := at + extended
		if b[at+flags]&0x80 != 0 {
			bits = append(bits, mark{at: at + flags, bit: 0x80})
		}
		if b[at+flags]&0x40 != 0 {
			if b[from]&0x40 != 0 {
				bits = append(bits, mark{at: from, bit: 0x40})
			}
			from += 2
		}
		if version == 4 { // the name begins like the one before, but for its last bytes
			drop := 0
			for i := 0; ; i++ {
				c := b[from]
				from++
				drop = drop<<7 | int(c&0x7f)
				if c&0x80 == 0 || i > 3 || from >= end {
					break
				}
				drop++
			}
			if drop > len(name) {
				return nil, errIndex
			}
			name = name[:len(name)-drop]
		} else {
			name = ""
		}
		n := bytes.IndexByte(b[from:end], 0)
		if n < 0 {
			return nil, errIndex
		}
		name += string(b[from : from+n])
		from += n + 1
		if version != 4 {
			from = at + (from-1-at+8)/8*8
		}
		for _, m := range bits {
			m.path = name
			out = append(out, m)
		}
		at = from
	}
	return out, nil
}

// indexes returns the indexes of the repositories that were found, with the marks in them.
func indexes(repos []string) map[string]map[mark]bool {
	out := map[string]map[mark]bool{}
	for _, dir := range repos {
		name := filepath.Join(dir, ".git", "index")
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		all, err := marks(b)
		if err != nil {
			continue
		}
		out[name] = map[mark]bool{}
		for _, m := range all {
			out[name][mark{path: m.path, bit: m.bit}] = true
		}
	}
	return out
}

// unmark takes away the marks that the command has set, and returns a sentence about them, "" if there are none.
func unmark(index string, before map[mark]bool) string {
	b, err := os.ReadFile(index)
	if err != nil {
		return ""
	}
	all, err := marks(b)
	if err != nil {
		return ""
	}
	all = slices.DeleteFunc(all, func(m mark) bool { return before[mark{path: m.path, bit: m.bit}] })
	if len(all) == 0 || sparse(filepath.Dir(index)) {
		return ""
	}
	var names []string
	for _, m := range all {
		b[m.at] &^= m.bit
		names = append(names, m.path)
	}
	sum := sha1.Sum(b[:len(b)-sha1.Size]) //nolint:gosec // as Git writes it
	copy(b[len(b)-sha1.Size:], sum[:])
	lock := index + ".lock"
	f, err := os.OpenFile(lock, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // as Git makes it
	if err == nil {
		_, err = f.Write(b)
		if err = errors.Join(err, f.Close()); err == nil {
			err = os.Rename(lock, index)
		}
		if err != nil {
			_ = os.Remove(lock)
		}
	}
	said := fmt.Sprintf("it marked %s in the index of Git, so that git status would not show changes", strings.Join(names[:min(len(names), 5)], ", "))
	if err != nil {
		return said + "; undo it: git update-index --no-assume-unchanged --no-skip-worktree -- FILE"
	}
	return said + "; the marks were taken away"
}

// sparse reports whether a repository is checked out in part, where Git itself sets marks.
func sparse(git string) bool {
	all, _ := readConfig(filepath.Join(git, "config"), "", 0)
	more, _ := readConfig(filepath.Join(git, "config.worktree"), "", 0)
	return slices.ContainsFunc(append(all, more...), func(s setting) bool { return s.key == "core.sparsecheckout" && s.value != "false" })
}
