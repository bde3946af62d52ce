package skill

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/frontmatter"
)

// The limits of one skill, and of a folder of them.
const (
	maxEntries = 50_000   // to look at, of a folder of skills
	maxHelpers = 2000     // files
	maxBytes   = 64 << 20 // in all files
	maxDepth   = 16       // folders in each other
)

// Dirs returns the folders of skills below a folder, sorted, and that folder itself if it may be a
// skill. It also returns what cannot be read or is odd. It does not search inside skills.
func Dirs(f *frontmatter.Folder, dir string, itself bool) (dirs []string, odd []Finding) {
	list, cut := f.Entries(dir, &frontmatter.Walk{Entries: maxEntries, Depth: maxDepth, Enter: func(d string, names []string) bool {
		if slices.Contains(names, File) && (itself || d != path.Clean(dir)) {
			dirs = append(dirs, d)
			return false
		}
		base := path.Base(d)
		return base != "node_modules" && base != ".git"
	}})
	if cut {
		odd = append(odd, Finding{Code: unreadable, Path: f.Path(dir),
			Text: fmt.Sprintf("the folder has over %d files, or folders over %d deep; some are left out", maxEntries, maxDepth)})
	}
	none := ""
	for _, e := range list {
		if top, _, in := strings.Cut(e.Path, "/"); itself && len(dirs) > 0 && in && top != none && !slices.ContainsFunc(dirs, func(d string) bool { return d == top || strings.HasPrefix(d, top+"/") }) {
			none = top
			odd = append(odd, Finding{Code: missingFrontMatter, Path: f.Path(top), Text: "there is no " + File + " in this folder or below; it is no skill"})
		}
		switch {
		case e.Err != nil:
			odd = append(odd, Finding{Code: unreadable, Path: f.Path(e.Path), Text: "cannot be read: " + e.Err.Error(), err: true})
		case archive(e.Path):
			odd = append(odd, Finding{Code: oddFile, Path: f.Path(e.Path), Text: "it is an archive, which is not opened; unpack it if it is a skill that you trust"})
		}
	}
	slices.Sort(dirs)
	return dirs, odd
}

// Read reads the skill in a folder. It is nil if the skill cannot be used; then the findings say why. The path of the
// source, and its line, are filled in.
func Read(base *frontmatter.Folder, dir string, src Source) (*Skill, []Finding) {
	src.Path = base.Path(dir)
	f, err := base.Sub(dir)
	if err != nil {
		return nil, []Finding{{Code: unreadable, Path: src.Path, Text: "cannot be read: " + err.Error()}}
	}
	defer f.Close()
	c, err := look(f)
	if err != nil {
		return nil, []Finding{{Code: unreadable, Path: src.Path, Text: "cannot be used: " + err.Error()}}
	}
	r := read(c.main, path.Base(dir))
	var fatal []Finding
	for _, x := range r.found {
		if x.fatal {
			x.Path = src.Path + "/" + File
			fatal = append(fatal, x)
		}
	}
	if fatal != nil {
		return nil, fatal
	}
	k := r.skill
	src.Line = k.Source.Line
	k.Source, k.Digest, k.Files, k.Warnings = src, c.digest, c.files, slices.Concat(r.found, c.odd)
	return k, nil
}

// contents describes the files in the folder of a skill.
type contents struct {
	main   []byte // SKILL.md
	files  []HelperFile
	odd    []Finding
	digest string
}

// look reads all files of a folder. The digest covers the path and content of each file. Links and
// devices are not read: for them it covers the path and the problem. The digest therefore changes
// with everything that the skill could run or show to a model. A skill that is too large to be
// covered is refused.
func look(f *frontmatter.Folder) (*contents, error) {
	list, cut := f.Entries(".", &frontmatter.Walk{Entries: maxHelpers, Depth: maxDepth})
	if cut {
		return nil, fmt.Errorf("the skill has over %d files, or folders over %d deep; take out what it does not need", maxHelpers, maxDepth)
	}
	c := &contents{}
	all := sha256.New()
	left := int64(maxBytes)
	for _, e := range list {
		if e.Err != nil || e.Mode&fs.ModeType != 0 {
			why := "it is not a regular file, and is not read"
			if e.Err != nil {
				why = "it cannot be read: " + e.Err.Error()
			}
			c.odd = append(c.odd, Finding{Code: oddFile, Path: e.Path, Text: why})
			fmt.Fprintf(all, "odd %d %s %q %q\n", len(e.Path), e.Path, why, e.To)
			continue
		}
		b, sum, n, err := readSum(f, e.Path, left)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", clean.Quote(e.Path), err)
		}
		left -= n
		fmt.Fprintf(all, "file %d %s %s\n", len(e.Path), e.Path, sum)
		if e.Path == File {
			c.main = b
			continue
		}
		c.files = append(c.files, HelperFile{e.Path, n, sum})
		if archive(e.Path) {
			c.odd = append(c.odd, Finding{Code: oddFile, Path: e.Path, Text: "it is an archive; what is in it was not looked at"})
		}
	}
	if c.main == nil {
		for _, w := range c.odd {
			if w.Path == File {
				return nil, fmt.Errorf("%s: %s", File, w.Text)
			}
		}
		return nil, errors.New("there is no " + File)
	}
	c.digest = "sha256:" + hex.EncodeToString(all.Sum(nil))
	return c, nil
}

// readSum hashes a file. For SKILL.md it also returns the content.
func readSum(f *frontmatter.Folder, name string, left int64) (content []byte, sum string, n int64, err error) {
	file, err := f.Open(name)
	if err != nil {
		return nil, "", 0, err
	}
	defer file.Close()
	if name == File {
		b, err := io.ReadAll(io.LimitReader(file, frontmatter.MaxFile+1))
		if err != nil {
			return nil, "", 0, err
		}
		if len(b) > frontmatter.MaxFile {
			return nil, "", 0, errors.New("the file is over 1 MiB")
		}
		return b, digest(b), int64(len(b)), nil
	}
	h := sha256.New()
	n, err = io.Copy(h, io.LimitReader(file, left+1))
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return nil, "", 0, err
	}
	if n > left {
		return nil, "", 0, fmt.Errorf("the skill is over %d MiB; take out what it does not need", maxBytes>>20)
	}
	return nil, hex.EncodeToString(h.Sum(nil)), n, nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
