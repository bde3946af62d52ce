package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// lookTime bounds how long the folders of a project are looked through. It is enough for a million of them.
const lookTime = 30 * time.Second

// A finding lists the entries of a folder that need special treatment.
type finding struct {
	hidden    []string // may not be read
	protected []string // may be read, not written
	closed    []string // folders that cannot be listed; they are hidden as a whole
	repos     []string // folders that hold a repository
	secrets   []string // configurations of Git with credentials; commands see copies without
	heads     []string // of repositories, and what others have of one
}

// unsearched are folders that are too large to be looked through.
const unsearched = "node_modules"

// errLate says that a look took too long.
var errLate = fmt.Errorf("its folders could not be looked through for secrets and protected files within %v", lookTime)

// errMoved says that folders were moved during a look, which then begins again.
var errMoved = errors.New("its folders were moved while they were looked through")

// A looker decides what a look finds.
type looker struct {
	hide, protect func(path string) bool
	tops          []string               // that commands may write
	home          string                 // of the user's configuration of Git
	environ       []string               // of the user
	open          bool                   // folders of this user that cannot be listed are opened for the look
	skip          map[string]bool        // folders that are not entered
	known         func(path string) bool // what was there before the command that has ended; nil before one starts
}

// find looks for hidden and protected files below a folder.
func (sc *scanner) find(root string, l looker) (f finding, err error) {
	until := time.Now().Add(lookTime)
	for {
		f, err = sc.look(root, l, until)
		if !errors.Is(err, errMoved) || time.Now().After(until) {
			break
		}
	}
	if err != nil {
		return finding{}, fmt.Errorf("%s: %w", root, err)
	}
	for _, list := range []*[]string{&f.hidden, &f.protected, &f.closed, &f.repos, &f.secrets} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return f, nil
}

// longest is the length from which a path is not mounted over: a folder above it is hidden instead.
const longest = 3000

// short returns a path, or the nearest folder above it whose path is not too long.
func short(name string) string {
	for len(name) > longest {
		name = filepath.Dir(name)
	}
	return name
}

// behind returns the target of a symbolic link and the other links on the way to it, as far as they are in folders that commands may write.
func (l *looker) behind(name string) (all []string) {
	real := follow(name, 40, func(link, _ string) bool {
		all = append(all, link)
		return l.known == nil || l.known(link) // what is behind a link of a command is none of its work
	})
	return keep(append(all, real), func(to string) bool {
		return !within(to, name) && slices.ContainsFunc(l.tops, func(top string) bool { return within(top, to) && top != to })
	})
}

// existing returns the paths of a list that exist, as far as that can be told: a folder around one may be closed.
func existing(all []string) []string {
	return keep(all, func(name string) bool {
		_, err := os.Lstat(name)
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
	})
}

func keep(all []string, f func(string) bool) []string {
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !f(name) })
}
