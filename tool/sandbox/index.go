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

// An entry is a file in an index of Git: gitformat-index(5).
type entry struct {
	name, stage string
	head        []byte // its times, numbers, mode, size, SHA-1 and flags, within the index
}

// The parts of the head of an entry.
const (
	ofMode, ofOwner, ofName, ofFlags, ofMore = 24, 28, 40, 60, 62

	assumed, skipped, extended, gitlink = 0x80, 0x40, 0x40, 0xe000
)

func (e entry) marked() bool {
	return len(e.head) > ofFlags && (e.head[ofFlags]&assumed != 0 || len(e.head) > ofMore && e.head[ofMore]&skipped != 0)
}

func (e entry) link() bool {
	return e.head != nil && binary.BigEndian.Uint32(e.head[ofMode:]) == gitlink
}

var errIndex = errors.New("it is no index of Git that is known")

// entries lists the files in an index, and returns what must be kept of what is behind them, with its checksum left out.
func entries(b []byte) (all []entry, size int, rest []byte, err error) {
	if len(b) < 32 || string(b[:4]) != "DIRC" {
		return nil, 0, nil, errIndex
	}
	version, count := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	if version < 2 || version > 4 {
		return nil, 0, nil, errIndex
	}
	name, at, end := "", 12, len(b)-sha1.Size
	for range count {
		if at+ofMore+2 > end {
			return nil, 0, nil, errIndex
		}
		from := at + ofMore
		if b[at+ofFlags]&extended != 0 {
			from += 2
		}
		e := entry{head: b[at:from:from], stage: string(b[at+ofFlags] >> 4 & 3)}
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
				return nil, 0, nil, errIndex
			}
			name = name[:len(name)-drop]
		} else {
			name = ""
		}
		n := bytes.IndexByte(b[from:end], 0)
		if n < 0 {
			return nil, 0, nil, errIndex
		}
		name += string(b[from : from+n])
		from += n + 1
		if version != 4 {
			from = at + (from-1-at+8)/8*8
		}
		e.name, at = name, from
		all = append(all, e)
	}
	for from := at; from+8 <= end; {
		to := from + 8 + int(binary.BigEndian.Uint32(b[from+4:]))
		if to > end || string(b[from:from+4]) == "link" { // the rest is in another file
			return nil, 0, nil, errIndex
		}
		if b[from] > 'Z' { // the others only save time, if they are true
			rest = append(rest, b[from:to]...)
		}
		from = to
	}
	return all, at, rest, nil
}

// heal has Git look at all that a command has changed in an index: it takes away marks, times, what saves Git a look, and
// repositories that nobody looks through. It returns what to tell the user.
func heal(index string, before []byte) (said []string) {
	b, err := os.ReadFile(index)
	if err != nil || bytes.Equal(b, before) {
		return nil
	}
	old, _, _, known := entries(before)
	now, size, rest, err := entries(b)
	if err != nil {
		if known != nil && before != nil {
			return nil // nor was it before
		}
		return []string{"it left an index of Git in " + filepath.Dir(index) + " in which changes can be hidden; make a new one: rm .git/index && git reset"}
	}
	was := make(map[string]entry, len(old))
	for _, e := range old {
		was[e.name+"\x00"+e.stage] = e
	}
	partly := sparse(filepath.Dir(index))
	var marks, links []string
	more := byte(2) // the version, without what only 4 has
	plain := []byte(nil)
	for _, e := range now {
		o := was[e.name+"\x00"+e.stage]
		if e.link() && !o.link() && slices.Contains(strings.Split(e.name, "/"), unsearched) {
			links = append(links, e.name)
			continue
		}
		if e.marked() && !o.marked() && !partly {
			marks = append(marks, e.name)
			e.head[ofFlags] &^= assumed
			if len(e.head) > ofMore {
				e.head[ofMore] &^= skipped
			}
		}
		if o.head == nil || !bytes.Equal(e.head[:ofFlags], o.head[:ofFlags]) {
			clear(e.head[:ofMode])
			clear(e.head[ofOwner:ofName])
		}
		if len(e.head) > ofMore {
			more = 3
		}
		plain = append(append(plain, e.head...), e.name...)
		plain = append(plain, make([]byte, 8-(len(e.head)+len(e.name))%8)...)
	}
	out := b[:size:size]
	if len(links) > 0 {
		out = append([]byte{'D', 'I', 'R', 'C', 0, 0, 0, more, 0, 0, 0, 0}, plain...)
		binary.BigEndian.PutUint32(out[8:], uint32(len(now)-len(links))) //nolint:gosec // fewer than there were
	}
	out = append(out, rest...)
	sum := sha1.Sum(out) //nolint:gosec // as Git writes it
	lock := index + ".lock"
	f, err := os.OpenFile(lock, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // as Git makes it
	if err == nil {
		_, err = f.Write(append(out, sum[:]...))
		if err = errors.Join(err, f.Close()); err == nil {
			err = os.Rename(lock, index)
		}
		if err != nil {
			_ = os.Remove(lock)
		}
	}
	few := func(all []string) string { return strings.Join(all[:min(len(all), 5)], ", ") }
	end := "; that was undone"
	if err != nil {
		end = ""
		said = append(said, fmt.Sprintf("it changed the index in %s, where changes can be hidden since it cannot be written (%v): rm .git/index && git reset", filepath.Dir(index), err))
	}
	if len(marks) > 0 {
		said = append(said, "it marked "+few(marks)+" in the index of Git, so that git status would not show changes"+end)
	}
	if len(links) > 0 {
		said = append(said, "it put the repository "+few(links)+" into the index of Git, so that git status would run what that names"+end)
	}
	return said
}

// sparse reports whether a repository is checked out in part, where Git itself sets marks.
func sparse(git string) bool {
	all, _ := readConfig(filepath.Join(git, "config"), "", 0)
	more, _ := readConfig(filepath.Join(git, "config.worktree"), "", 0)
	return slices.ContainsFunc(append(all, more...), func(s setting) bool { return s.key == "core.sparsecheckout" && s.value != "false" })
}
