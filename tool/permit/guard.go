package permit

import (
	"path"
	"strings"
)

const (
	mostArgs  = 2000 // of a command that are looked at
	mostNames = 5000 // of files in one call
	mostDirs  = 8    // that a call changes to
)

// hold says that a command has to be asked about whatever the rules allow.
func (a *analysis) hold(why string) {
	a.hard(why)
	if a.firm == "" {
		a.firm = why
	}
}

// enter notes the folder that a command changes to.
func (a *analysis) enter(rest []string) {
	dir := "~"
	for _, w := range rest {
		if !strings.HasPrefix(w, "-") {
			dir = w
		}
	}
	if at := strings.IndexAny(dir, string(within)+string(spread)); at >= 0 {
		return
	}
	if n := len(a.dirs); n > 0 {
		dir = under(a.dirs[n-1], dir)
	}
	if len(a.dirs) < mostDirs {
		a.dirs = append(a.dirs, dir)
	} else {
		a.hard("it changes the folder too often")
	}
}

// under is a name in a folder.
func under(dir, name string) string {
	if path.IsAbs(name) || name == "~" || strings.HasPrefix(name, "~/") {
		return name
	}
	return path.Join(dir, name)
}

// protectedAt says why a name in a folder is protected, "" if it is not.
func (a *analysis) protectedAt(dir, name string) string {
	for _, l := range a.policy.locations(under(dir, name)) {
		if what := a.policy.protectedPlace(l); what != "" {
			return what
		}
	}
	return ""
}

// reads says whether a command is known to write no file that it is given.
func reads(name string, rest []string) bool {
	switch name {
	case "ls", "cat", "head", "tail", "wc", "grep", "egrep", "fgrep", "stat", "du", "diff", "cmp", "cksum", "sha256sum", "test", "[", "echo", "printf",
		"sha1sum", "md5sum", "realpath", "readlink", "jq", "which", "nl", "cut", "basename", "dirname", "df", "comm", "join", "od", "hexdump", "strings", "true":
		return true
	case "file", "tree", "sort", "rg", "sed", "awk", "gawk", "mawk", "nawk", "date":
		return risks(name, rest).why == ""
	case "find":
		for _, w := range rest {
			if startsWith("-exec -ok -delete -fprint -fls", w) || !plain(w) {
				return false
			}
		}
		return true
	case "git":
		return gitReads(rest)
	}
	return false
}

// protectedArgs has a command asked about that names what is protected, unless it only reads it. Keys are not
// read by a pattern's leave either.
func (a *analysis) protectedArgs(name string, rest []string) {
	reads := reads(name, rest)
	if len(rest) > mostArgs && !reads {
		a.hard(name + " is given too many words")
	}
	for _, w := range rest[:min(len(rest), mostArgs)] {
		for _, c := range named(name, w) {
			what := a.protectedName(c)
			if what == "" || reads && !strings.HasPrefix(what, "keys") {
				continue
			}
			why := name + " is given " + shown([]string{c}) + ", which is protected (" + what + ")"
			if reads {
				a.hard(why)
				continue
			}
			a.hold(why)
			return
		}
	}
}

// protectedName says why what a command is given is protected, in any folder that it may be in.
func (a *analysis) protectedName(c string) string {
	if a.resolved++; a.resolved > mostNames {
		a.hard("it names too many files")
		return protectedName(c)
	}
	what := a.protectedAt("", c)
	for _, dir := range a.dirs {
		if what == "" {
			what = a.protectedAt(dir, c)
		}
	}
	return what
}

// named are the names of files that a word of a command may hold.
func named(name, w string) []string {
	if w == "" || len(w) > 4*longestPath {
		return nil
	}
	marks := string(within) + string(spread)
	var out []string
	if at := strings.IndexAny(w, marks); at >= 0 {
		out = append(out, literalParts(w[at:])...)
		w = w[:at]
	}
	candidates := []string{w}
	if _, value, ok := strings.Cut(w, "="); ok {
		candidates = append(candidates, value)
	}
	if len(w) > 2 && w[0] == '-' && w[1] != '-' {
		candidates = append(candidates, w[2:])
	}
	switch name {
	case "sed", "gsed", "awk", "gawk", "mawk", "nawk": // scripts that write
		candidates = append(candidates, strings.FieldsFunc(w, func(c rune) bool { return strings.ContainsRune(" \n;\"'", c) })...)
	}
	for _, c := range candidates {
		if c == "" || len(c) > longestPath || strings.ContainsAny(c, " \n") && !strings.Contains(c, "/") {
			continue
		}
		out = append(out, c)
	}
	return out
}

// literalParts are the paths below what is computed, as in "$HOME/.config/x".
func literalParts(w string) []string {
	var out []string
	for _, part := range strings.FieldsFunc(w, func(c rune) bool { return c == within || c == spread }) {
		if _, below, ok := strings.Cut(part, "/"); ok && below != "" && len(out) < 16 {
			out = append(out, below)
		}
	}
	return out
}
