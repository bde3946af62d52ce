// Package cover determines which files of a project a command could load when it runs: the files
// that it names, the files in their folders, and those that programs load from their working
// folder.
package cover

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The limits of a digest, besides the files that a command names.
const (
	maxCovered      = 5000
	maxCoveredBytes = 64 << 20
	maxWalked       = 50000     // entries that are looked at to find those
	maxNamed        = 256 << 20 // of one file that a command names
)

// A TooMuch reports that a folder holds more than a digest covers.
type TooMuch struct{ Folder string }

func (e *TooMuch) Error() string {
	return fmt.Sprintf("would run from the folder %s, which holds more than trust can cover (%d files or %d MiB): put what runs into a small "+
		"folder of its own (for npm and npx one with a package.json of its own) and work there, or install it outside of the project and name it "+
		"by its absolute path",
		e.Folder, maxCovered, maxCoveredBytes>>20)
}

// A Cover collects the files of a project that a program could load: those that its command names,
// and what lies in their folders.
type Cover struct {
	root  string                                          // of the project, real
	sum   func(string, fs.FileInfo) (sum string, _ error) // of a file's contents
	Files map[string]string                               // by path relative to the root, what each is
	Parts []string                                        // the folders, relative to the root, for people

	named  map[string]bool // these do not count as much
	done   map[string]bool // folders
	walked int
	bytes  int64
	caches bool // python was told not to heed quiet
}

// New creates a cover from a project, whose folder is real. Sum digests the contents of a file.
func New(root string, sum func(string, fs.FileInfo) (string, error)) *Cover {
	return &Cover{root: root, sum: sum, Files: map[string]string{}, named: map[string]bool{}, done: map[string]bool{}}
}

// Write adds all covered files to a digest, in the order of their paths.
func (c *Cover) Write(h hash.Hash) {
	for _, rel := range slices.Sorted(maps.Keys(c.Files)) {
		fmt.Fprintf(h, "\n%d %s %s", len(rel), rel, c.Files[rel])
	}
}

// relative returns a path below the root.
func (c *Cover) relative(path string) (string, bool) {
	rel, err := filepath.Rel(c.root, path)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// Command covers the files that the words of a command may name in a folder. Works covers its
// working folder.
func (c *Cover) Command(dir string, argv []string) error {
	if len(argv) == 0 {
		return nil
	}
	name := Program(argv[0])
	family := Families()[name]
	c.caches = c.caches || family == "py" && slices.ContainsFunc(argv[1:], func(w string) bool {
		return strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.ContainsAny(w, "EI")
	})
	for _, w := range argv { // before their folders are read, so that they do not count
		for _, text := range candidates(w) {
			if _, real, ok := c.place(dir, text); ok {
				rel, _ := c.relative(real)
				c.named[rel] = true
			}
		}
	}
	if fetches(argv) {
		if err := c.fetched(dir, argv); err != nil {
			return err
		}
	}
	script := false // the word that an interpreter runs has come
	for i, w := range argv {
		for _, text := range candidates(w) {
			if err := c.File(dir, text, family); err != nil {
				return err
			}
		}
		if i == 0 || script || family == "" || strings.HasPrefix(w, "-") {
			continue
		}
		// An interpreter runs folders too, and files by less than their names.
		script = !slices.Contains([]string{"run", "exec", "-S"}, w)
		if err := c.Folder(dir, w, family); err != nil {
			return err
		}
		if family == "js" {
			for _, ext := range []string{".js", ".cjs", ".mjs", ".ts", ".json", ".node"} {
				if err := c.File(dir, w+ext, family); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// fetched covers the files of a folder that decide which package a command runs by name, and the
// package itself if it is installed there.
func (c *Cover) fetched(dir string, argv []string) error {
	for _, name := range []string{"package.json", ".npmrc", "package-lock.json", "yarn.lock", ".yarnrc.yml", "pnpm-lock.yaml", "bunfig.toml",
		"bun.lock", "uv.toml", "pyproject.toml"} {
		if _, real, ok := c.place(dir, name); ok {
			if info, err := os.Stat(real); err != nil || !info.Mode().IsRegular() {
				continue
			}
			rel, _ := c.relative(real)
			c.named[rel] = true
			if err := c.add(real); err != nil {
				return err
			}
		}
	}
	for _, w := range argv[1:] {
		if strings.HasPrefix(w, "-") || w == "" {
			continue
		}
		if at := strings.LastIndexByte(w, '@'); at > 0 {
			w = w[:at] // the version
		}
		if err := c.Folder(dir, "node_modules/"+w, "js"); err != nil {
			return err
		}
		if err := c.File(dir, "node_modules/.bin/"+w[strings.LastIndexByte(w, '/')+1:], "js"); err != nil {
			return err
		}
	}
	return nil
}

// candidates returns the texts in a word that may name a file: all of it, what comes after "=" or
// after the letter of an option, and the words of a text for a shell.
func candidates(word string) []string {
	out := []string{word}
	if _, value, ok := strings.Cut(word, "="); ok {
		out = append(out, value)
	}
	if strings.HasPrefix(word, "-") && len(word) > 2 {
		out = append(out, word[2:])
	}
	if len(word) < 64<<10 && strings.ContainsAny(word, " \t\n;|&<>()'\"`=,") {
		out = append(out, strings.FieldsFunc(word, func(r rune) bool { return strings.ContainsRune(" \t\n;|&<>()'\"`=,", r) })...)
	}
	return out
}

// place resolves a text as a path from a folder. It returns the real path if that is inside the
// project.
func (c *Cover) place(dir, text string) (path, real string, ok bool) {
	text = strings.TrimPrefix(text, "file://")
	if text == "" || len(text) > 4096 || strings.ContainsRune(text, 0) {
		return "", "", false
	}
	path = filepath.FromSlash(text)
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", "", false // it names nothing
	}
	_, ok = c.relative(real)
	return path, real, ok
}

// File covers a named file, if it exists, and its folder. A link may load files beside itself and
// files beside its target.
func (c *Cover) File(dir, text, family string) error {
	path, real, ok := c.place(dir, text)
	if path == "" {
		return nil
	}
	beside, err := filepath.EvalSymlinks(filepath.Dir(path))
	if info, e := os.Stat(path); e != nil || !info.Mode().IsRegular() {
		return nil
	}
	if family == "" {
		family = familyOf(filepath.Ext(path))
	}
	if ok {
		rel, _ := c.relative(real)
		c.named[rel] = true
		if err := c.add(real); err != nil {
			return err
		}
		if err := c.around(filepath.Dir(real), family); err != nil {
			return err
		}
	}
	if at, in := c.relative(filepath.Join(beside, filepath.Base(path))); err == nil && in {
		if info, err := os.Stat(real); !ok && err == nil && info.Size() <= maxNamed { // a link that leads outside
			sum, err := c.sum(real, info)
			if err != nil {
				return err
			}
			c.Files[at] = fmt.Sprintf("outside %q %s", real, sum)
		}
		return c.around(beside, family)
	}
	return nil
}

// Folder covers a folder that is named to be run.
func (c *Cover) Folder(dir, text, family string) error {
	_, real, ok := c.place(dir, text)
	if info, err := os.Stat(real); !ok || err != nil || !info.IsDir() {
		return nil
	}
	return c.around(real, family)
}

// around covers a whole folder, or, for the project folder, only its code and executables: other
// files there change with every day's work.
func (c *Cover) around(dir, family string) error {
	if dir != c.root {
		return c.tree(dir, "", nil)
	}
	exts := extensions(family)
	return c.tree(dir, family, func(d fs.DirEntry, depth int) bool {
		if slices.Contains(exts, strings.ToLower(filepath.Ext(d.Name()))) {
			return true
		}
		info, err := d.Info()
		return depth == 0 && err == nil && info.Mode()&0o111 != 0 // scripts without an ending
	})
}

// Works covers the files that a program runs from its working folder, if it is such a program: npm,
// make, python -m and the like.
func (c *Cover) Works(cwd string, argv []string) error {
	upwards, ok := worksIn(argv)
	if !ok {
		return nil
	}
	dirs := []string{cwd}
	for i, w := range argv {
		name, value, assigned := strings.Cut(w, "=")
		if !slices.Contains([]string{"-C", "--prefix", "--cwd", "--dir", "--directory", "--project", "--workdir", "-d"}, name) {
			continue
		}
		if !assigned && i+1 < len(argv) {
			value = argv[i+1]
		}
		if !filepath.IsAbs(value) {
			value = filepath.Join(cwd, value)
		}
		dirs = append(dirs, value)
	}
	for _, dir := range dirs {
		real, err := filepath.EvalSymlinks(dir)
		if info, e := os.Stat(real); err != nil || e != nil || !info.IsDir() {
			continue
		}
		if _, in := c.relative(real); !in {
			continue
		}
		if upwards {
			if real, err = c.upwards(real); err != nil {
				return err
			}
		}
		if err := c.tree(real, "work", working); err != nil {
			return err
		}
	}
	return nil
}

// upwards finds the folder that such a program regards as its project, and covers what its parent
// folders may add.
func (c *Cover) upwards(dir string) (string, error) {
	base := ""
	for at := dir; ; at = filepath.Dir(at) {
		entries, err := os.ReadDir(at)
		if err != nil {
			return "", err
		}
		for _, e := range entries {
			if !marker(e.Name()) {
				continue
			}
			if base == "" {
				base = at
			}
			if !e.IsDir() {
				if err := c.add(filepath.Join(at, e.Name())); err != nil {
					return "", err
				}
			}
		}
		if at == c.root || at == filepath.Dir(at) {
			break
		}
	}
	if base == "" {
		base = dir
	}
	return base, nil
}

// tree covers the files of a folder that take accepts, or all of them. The folder .git is left out.
func (c *Cover) tree(dir, how string, take func(d fs.DirEntry, depth int) bool) error {
	rel, ok := c.relative(dir)
	if !ok || c.done[dir+"\x00"] || c.done[dir+"\x00"+how] {
		return nil
	}
	if !slices.Contains(c.Parts, rel) {
		c.Parts = append(c.Parts, rel)
	}
	err := c.walk(dir, how, 0, take)
	if much, ok := errors.AsType[*TooMuch](err); ok && much.Folder == "" {
		much.Folder = Shown(rel)
	}
	return err
}

// Shown returns a folder in the form shown to users.
func Shown(rel string) string {
	if rel == "." {
		return "./"
	}
	return "./" + rel
}

func (c *Cover) walk(dir, how string, depth int, take func(d fs.DirEntry, depth int) bool) error {
	if key := dir + "\x00" + how; c.done[key] || c.done[dir+"\x00"] {
		return nil
	} else if depth == 0 || how == "" {
		c.done[key] = true
	}
	f, err := os.Open(dir)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) && depth > 0 {
			return nil // nor can what runs read it
		}
		return err
	}
	entries, err := f.ReadDir(maxWalked + 1 - c.walked)
	_ = f.Close() // only read
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if c.walked += len(entries); c.walked > maxWalked || depth > 200 {
		return &TooMuch{}
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.Name() == ".git" || e.Name() == "__pycache__" && !c.caches: // the latter: see quiet
		case e.IsDir():
			err = c.walk(path, how, depth+1, take)
		case e.Type()&fs.ModeSymlink != 0:
			err = c.link(path, how, e, depth, take)
		case take == nil || take(e, depth):
			err = c.add(path)
		default:
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// link covers a link, and what it leads to unless that lies outside.
func (c *Cover) link(path, how string, e fs.DirEntry, depth int, take func(d fs.DirEntry, depth int) bool) error {
	real, err := filepath.EvalSymlinks(path)
	info, e2 := os.Stat(path)
	folder := err == nil && e2 == nil && info.IsDir()
	if !folder && take != nil && !take(e, depth) {
		return nil
	}
	if err := c.add(path); err != nil || e2 != nil {
		return err
	}
	if _, ok := c.relative(real); !ok || folder && below(real, path) {
		return nil // outside, or around what is being read
	}
	if folder {
		return c.walkLinked(real, how, depth+1, take)
	}
	return c.add(real)
}

// walkLinked reads a folder that a link leads to, once.
func (c *Cover) walkLinked(dir, how string, depth int, take func(d fs.DirEntry, depth int) bool) error {
	key := dir + "\x00linked " + how
	if c.done[key] {
		return nil
	}
	c.done[key] = true
	return c.walk(dir, how, depth, take)
}

func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// add covers one file, within the limits.
func (c *Cover) add(path string) error {
	rel, ok := c.relative(path)
	if _, again := c.Files[rel]; again || !ok {
		return nil
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if len(c.Files)-len(c.named) >= maxCovered {
		return &TooMuch{}
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		c.Files[rel] = fmt.Sprintf("link %q", target)
		return nil
	case !info.Mode().IsRegular():
		c.Files[rel] = "special"
		return nil
	}
	if c.named[rel] {
		if info.Size() > maxNamed {
			return fmt.Errorf("%s is larger than %d MiB", rel, maxNamed>>20)
		}
	} else if c.bytes += info.Size(); c.bytes > maxCoveredBytes {
		return &TooMuch{}
	}
	sum, err := c.sum(path, info)
	if errors.Is(err, fs.ErrPermission) && !c.named[rel] {
		sum, err = "unreadable", nil // also for what runs
	}
	if err != nil {
		return err
	}
	c.Files[rel] = fmt.Sprintf("%t %s", info.Mode()&0o111 != 0, sum)
	return nil
}

// Contents returns the digest of a file.
func Contents(path string, info fs.FileInfo) (_ string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	now, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !os.SameFile(info, now) {
		return "", fmt.Errorf("%s was exchanged while it was read; try again", path)
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, info.Size()+1)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
