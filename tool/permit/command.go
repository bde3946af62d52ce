package permit

import (
	"path"
	"slices"
	"strings"
)

// A commandPattern matches the words of a simple command. In a pattern, the word "*" stands for any
// words, a star within a word for any text of that word, and a star at the very end for the rest of
// the command.
type commandPattern []string

func compileCommand(pattern string) matcher { return commandPattern(strings.Fields(pattern)) }

func (c commandPattern) match(u *unit, strict bool) answer {
	if u.words == nil {
		return no
	}
	if strict {
		if c.fits(u.words) {
			return yes
		}
		return no
	}
	best := c.mayFit(u.words)
	for _, form := range u.forms {
		if best == no && c.mayFit(form) != no {
			best = perhaps // its words may be a command, or not
		}
	}
	return best
}

// mayFit matches for rules that deny or ask: a command given by its path counts as the command, and
// computed parts may be anything.
func (c commandPattern) mayFit(words []string) answer {
	byName := words
	if plain(words[0]) && strings.Contains(words[0], "/") {
		byName = append([]string{path.Base(words[0])}, words[1:]...)
	}
	if c.fits(words) || c.fits(byName) {
		return yes
	}
	if c.could(words) || c.could(byName) {
		return perhaps
	}
	return no
}

// fits reports whether the words match for sure, whatever the computed parts become. A star never stands for a part of
// a path in the command's own name.
func (c commandPattern) fits(words []string) bool {
	if !sameDepth(c[0], words[0]) {
		return false
	}
	t, w, star, mark := 0, 0, -1, 0
	for w < len(words) {
		last := t == len(c)-1
		switch {
		case t < len(c) && c[t] == "*":
			star, mark = t, w
			t++
		case last && strings.HasSuffix(c[t], "*") && glob(c[t], words[w]) && settled(c[t], words[w]):
			return true
		case t < len(c) && glob(c[t], words[w]) && !strings.ContainsRune(words[w], spread):
			t++
			w++
		case star >= 0:
			mark++
			t, w = star+1, mark
		default:
			return false
		}
	}
	for t < len(c) && c[t] == "*" {
		t++
	}
	return t == len(c)
}

// sameDepth reports whether a pattern and the name of a command have the same slashes, with what is between them matching.
func sameDepth(pattern, name string) bool {
	if !strings.Contains(name, "/") {
		return true
	}
	want, have := strings.Split(pattern, "/"), strings.Split(name, "/")
	return len(want) == len(have) && !slices.Contains(have, "..") && !slices.ContainsFunc(have, func(part string) bool {
		ok := glob(want[0], part)
		want = want[1:]
		return !ok
	})
}

// settled reports whether what may spread over several words begins only after the literal start of a pattern
// that ends in a star.
func settled(pattern, word string) bool {
	at := strings.IndexRune(word, spread)
	return at < 0 || glob(pattern, word[:at])
}

// could reports whether the words match for some values of the computed parts.
func (c commandPattern) could(words []string) bool {
	if !slices.ContainsFunc(words, func(w string) bool { return !plain(w) }) {
		return false // fits has decided
	}
	// open[t] is set if the words so far may match the first t words of the pattern.
	open := make([]bool, len(c)+1)
	open[0] = true
	for t := 0; t < len(c) && c[t] == "*"; t++ {
		open[t+1] = true
	}
	next := make([]bool, len(c)+1)
	for _, w := range words {
		clear(next)
		any := false
		for t := range open {
			if !open[t] {
				continue
			}
			c.step(t, w, next)
		}
		for t, ok := range next {
			any = any || ok
			if ok && t < len(c) && c[t] == "*" {
				next[t+1] = true
			}
		}
		if !any {
			return false
		}
		open, next = next, open
	}
	return open[len(c)]
}

// step marks the positions that a word may lead to from a position in the pattern.
func (c commandPattern) step(t int, w string, next []bool) {
	if t > 0 && t == len(c) && strings.HasSuffix(c[t-1], "*") {
		next[t] = true // the star at the end takes what follows
	}
	if at := strings.IndexRune(w, spread); at >= 0 {
		if at == 0 {
			for ; t <= len(c); t++ {
				next[t] = true
			}
			return
		}
		if t < len(c) && (c[t] == "*" || meet(c[t], w[:at]+string(within))) {
			for ; t <= len(c); t++ {
				next[t] = true
			}
		}
		return
	}
	if t < len(c) {
		if c[t] == "*" {
			next[t] = true
		} else if meet(c[t], w) {
			next[t+1] = true
		}
	}
}

// meet reports whether a glob and a word with computed parts have a text in common. Long ones are
// assumed to have one.
func meet(pattern, w string) bool {
	if len(pattern)*len(w) > 1<<16 {
		return true
	}
	row := make([]bool, len(w)+1)
	row[0] = true
	for j := 0; j < len(w) && w[j] == within; j++ {
		row[j+1] = true
	}
	for i := range len(pattern) {
		p := pattern[i]
		next := make([]bool, len(w)+1)
		next[0] = row[0] && p == '*'
		for j := range len(w) {
			switch {
			case p == '*':
				next[j+1] = row[j+1] || next[j]
			case w[j] == within:
				next[j+1] = next[j] || row[j+1] || row[j]
			default:
				next[j+1] = row[j] && (p == w[j] || p == '?' || w[j] >= 0x80)
			}
		}
		row = next
	}
	return row[len(w)]
}

// likeCommand returns a pattern that allows a command and its like: the same subcommand with other
// arguments, a command that only reads, or else only the very command.
func (f *facts) likeCommand() string {
	if f.why != "" || len(f.units) == 0 || len(f.units[0].words) == 0 {
		return ""
	}
	all := f.units[0].words
	if onlyReads(all[0]) {
		return all[0] + " *"
	}
	if len(all) > 1 && (slices.Contains(mild()[all[0]], all[1]) || runsTargets(all[0]) && subcommand(all[1]) && !strong(all[1])) {
		return all[0] + " " + all[1] + " *"
	}
	for _, w := range all {
		if w == "" || strings.ContainsAny(w, "*?() \t\n\x00\x01") {
			return ""
		}
	}
	return strings.Join(all, " ")
}

// mild lists subcommands that, whatever their arguments, destroy nothing, publish nothing, change nothing that runs elsewhere
// and start nothing that the arguments name. For all others, such as push, delete, run and apply, only the very command is
// offered.
func mild() map[string][]string {
	node := []string{"test", "ls", "list", "view", "outdated", "why", "explain"}
	containers := []string{"ps", "images", "logs", "inspect", "version", "info", "stats", "top", "port", "diff", "search", "history", "events"}
	return map[string][]string{
		"git": {"status", "log", "diff", "show", "blame", "grep", "add", "commit", "describe", "rev-parse", "rev-list", "ls-files", "ls-tree", "cat-file",
			"shortlog", "merge-base", "name-rev", "whatchanged", "cherry"},
		"go":    {"test", "build", "vet", "list", "fmt", "doc", "version"},
		"cargo": {"build", "check", "test", "clippy", "fmt", "doc", "tree", "metadata", "bench", "search"},
		"npm":   node, "pnpm": node, "yarn": node, "bun": node,
		"docker": containers, "podman": containers,
		"kubectl":   {"get", "describe", "logs", "top", "explain", "version", "api-resources", "api-versions", "diff"},
		"helm":      {"list", "ls", "status", "history", "show", "search", "template", "lint", "version"},
		"terraform": {"plan", "validate", "show", "output", "fmt", "version", "graph"},
		"pip":       {"list", "show", "freeze", "check", "index"},
		"poetry":    {"show", "check", "version", "search"},
		"brew":      {"list", "info", "search", "deps", "outdated"},
		"apt":       {"list", "show", "search", "policy"},
		"systemctl": {"status", "show", "cat", "list-units", "list-timers", "is-active", "is-enabled"},
	}
}

// runsTargets reports whether a program runs what a file of the project names, so that nobody knows what its words do.
func runsTargets(name string) bool {
	return slices.Contains([]string{"make", "just", "gradle", "mvn"}, name)
}

func subcommand(s string) bool {
	return s != "" && s[0] >= 'a' && s[0] <= 'z' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz-:") == ""
}

// strong reports whether a target is named after something that destroys, publishes or starts.
func strong(target string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(target, func(c rune) bool { return c == '-' || c == ':' }), func(word string) bool {
		return slices.Contains([]string{
			"apply", "clean", "delete", "deploy", "destroy", "down", "drop", "exec", "install", "kill", "migrate", "promote", "prune", "publish", "purge", "push",
			"release", "remove", "reset", "restart", "rm", "rollback", "run", "ship", "start", "stop", "terminate", "undeploy", "uninstall", "up", "upload", "wipe",
		}, word)
	})
}

// onlyReads reports whether a command neither writes nor sends nor starts anything, whatever its
// arguments.
func onlyReads(name string) bool {
	return slices.Contains([]string{
		"ls", "cat", "head", "tail", "wc", "grep", "egrep", "fgrep", "stat", "du", "df", "diff", "cmp", "pwd", "echo", "which", "true", "uname", "nl", "cut",
		"basename", "dirname", "cd",
	}, name)
}
