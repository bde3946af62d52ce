package sandbox

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// A repository tells what a folder has of Git.
type repository uint8

const (
	noRepository     repository = iota
	workRepository              // a folder .git
	linkedRepository            // a file or a link .git
	bareRepository              // it looks like a repository itself, which is enough for Git
)

// A program is what Git executes in a repository, and what it keeps secret there.
type program struct {
	runs    []string // files and folders below the root that name programs, or are some, whether they exist or not
	secrets []string // configurations with credentials
}

// gitParts are the entries of a repository that name programs for Git to execute, or other files that do: an interrupted
// rebase has a list of commands. The rest of a repository may be written, so that commits are possible.
var gitParts = []string{"hooks", "config", "config.worktree", "commondir", "gitdir", "info", "modules", "worktrees", "rebase-merge", "rebase-apply", "sequencer"}

// executes returns what the repository in a folder executes when its user runs Git there. User are the settings of the user's own
// configuration. After a command, only what was there before leads anywhere.
func executes(root, dir string, kind repository, user []setting, l *looker) program {
	var p program
	known := func(name string) bool { return l.known == nil || l.known(name) }
	git := filepath.Join(dir, ".git")
	switch kind {
	case linkedRepository:
		p.runs = append(append(p.runs, git), l.behind(git)...)
		return p
	case bareRepository:
		git = dir
	}
	add := func(name string) {
		if within(root, name) && name != root && name != dir {
			p.runs = append(append(p.runs, name), l.behind(name)...)
		}
	}
	for _, part := range gitParts {
		add(filepath.Join(git, part))
	}
	hooks := []string{filepath.Join(git, "hooks")}
	all := slices.Clone(user)
	for _, name := range []string{"config", "config.worktree"} {
		own, secret := readConfig(filepath.Join(git, name), l.home, 10)
		all = append(all, own...)
		if secret {
			p.secrets = append(p.secrets, filepath.Join(git, name))
		}
	}
	modules, _ := filepath.Glob(filepath.Join(globEscape(git), "modules", "*", "config")) // the pattern is valid
	for _, name := range modules {
		if _, secret := readConfig(name, l.home, 0); secret {
			p.secrets = append(p.secrets, name)
		}
	}
	for _, s := range all {
		if !known(s.file) {
			continue // it is moved aside
		}
		for _, name := range s.paths(dir) {
			if head := filepath.Join(git, "HEAD"); within(root, name) && !known(head) { // the repository goes, since what it executes may be the user's
				name = head
			}
			add(name)
			if s.key == "core.hookspath" {
				hooks = append(hooks, name)
			}
		}
	}
	for _, folder := range hooks {
		entries, _ := os.ReadDir(folder) // one that is not there has none
		for _, e := range entries {
			if e.Type()&os.ModeSymlink != 0 {
				p.runs = append(p.runs, l.behind(filepath.Join(folder, e.Name()))...)
			}
		}
	}
	return p
}

// gitKeeps reports whether Git itself makes a path of a repository, as for a worktree. Files that
// commands write there are executed only through another protected name.
func gitKeeps(name string) bool {
	return filepath.Base(filepath.Dir(name)) == ".git" && slices.Contains([]string{"info", "worktrees"}, filepath.Base(name))
}

// A setting is a line of a configuration of Git.
type setting struct {
	key, value string // section.name in lower case, without the middle of a key
	file, home string
}

// userSettings returns the settings of the system and the user, whose environment may name other files.
func userSettings(home string, environ []string) []setting {
	var out []setting
	names := []string{"/etc/gitconfig"}
	if home != "" {
		names = append(names, filepath.Join(home, ".config", "git", "config"), filepath.Join(home, ".gitconfig"))
	}
	for _, v := range environ {
		switch name, value, _ := strings.Cut(v, "="); name {
		case "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM":
			names = append(names, value)
		case "XDG_CONFIG_HOME":
			names = append(names, filepath.Join(value, "git", "config"))
		}
	}
	for _, name := range names {
		some, _ := readConfig(name, home, 10)
		out = append(out, some...)
	}
	return out
}

// quiet are settings whose values are no programs and no files of code, and those of sections that name branches and addresses.
var quiet = regexp.MustCompile(`^(core\.(worktree|excludesfile|attributesfile|bare)|commit\.template|blame\.ignorerevsfile|mailmap\..*|branch\..*|submodule\..*|` +
	`user\..*|url\..*|safe\..*|extensions\..*|remote\.(url|pushurl|fetch|push|mirror|proxy)|init\.defaultbranch)$`)

// paths returns the files that a setting leads Git to: a folder of hooks, a file that is included, a program.
func (s setting) paths(dir string) []string {
	resolve := func(name, from string) string {
		if rest, ok := strings.CutPrefix(name, "~/"); ok {
			name = filepath.Join(s.home, rest)
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(from, name)
		}
		return filepath.Clean(name)
	}
	switch {
	case s.value == "" || quiet.MatchString(s.key):
		return nil
	case s.key == "core.hookspath" || s.key == "init.templatedir":
		return []string{resolve(s.value, dir)}
	case s.key == "include.path" || s.key == "includeif.path":
		return []string{resolve(s.value, filepath.Dir(s.file))}
	case strings.HasPrefix(s.key, "alias.") && !strings.HasPrefix(s.value, "!"):
		return nil
	}
	var out []string
	words := strings.FieldsFunc(s.value, func(r rune) bool { return strings.ContainsRune(" \t\n'\"`();|&<>$={}!,:", r) })
	words = words[:min(len(words), 1000)]                                                         // a command may have written them
	folders := keep(slices.Compact(slices.Sorted(slices.Values(words))), func(word string) bool { // that it enters or searches
		info, err := os.Stat(filepath.Join(dir, word))
		return err == nil && info.IsDir()
	})
	for _, in := range append([]string{"."}, folders[:min(len(folders), 20)]...) {
		for _, word := range words { // from there, also behind a variable
			name := filepath.Join(dir, in, word)
			if info, err := os.Stat(name); err == nil && !info.IsDir() {
				out = append(out, name)
			}
		}
	}
	for _, word := range words {
		name := resolve(word, dir)
		info, err := os.Lstat(name)
		if err == nil && info.IsDir() || err != nil && !strings.Contains(word, "/") {
			continue // programs without a slash are found on PATH
		}
		out = append(out, name)
	}
	return out
}

// readConfig reads a configuration of Git with all that it includes, whatever the condition, and reports whether it holds credentials itself.
func readConfig(name, home string, depth int) (all []setting, secret bool) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a pipe by now
	if err != nil {
		return nil, false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, false
	}
	b, err := io.ReadAll(io.LimitReader(f, 4<<20))
	if err != nil {
		return nil, false
	}
	section := ""
	text := strings.ReplaceAll(strings.ReplaceAll(string(b), "\r\n", "\n"), "\\\n", " ")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			head, rest, _ := strings.Cut(line[1:], "]")
			if at := strings.IndexByte(head, '"'); at >= 0 {
				if end := strings.LastIndexByte(line, ']'); end > at {
					rest = line[end+1:]
				}
				head = head[:at]
			} else if at := strings.IndexByte(head, '.'); at >= 0 {
				head = head[:at]
			}
			section, line = strings.ToLower(strings.TrimSpace(head)), strings.TrimSpace(rest)
		}
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		s := setting{key: section + "." + strings.ToLower(strings.TrimSpace(key)), value: strings.ReplaceAll(strings.Trim(strings.TrimSpace(value), `"`), `\"`, `"`), file: name, home: home}
		all = append(all, s)
		if depth > 0 && (s.key == "include.path" || s.key == "includeif.path") {
			for _, more := range s.paths("") {
				some, _ := readConfig(more, home, depth-1)
				all = append(all, some...)
			}
		}
	}
	return all, withoutCredentials(string(b)) != string(b)
}

var (
	// credentialLine matches lines whose value is a credential, or that have one somewhere.
	credentialLine = regexp.MustCompile(`(?im)^([ \t]*(?:\[[^\n]*\][ \t]*)?)(?:extraheader|cookie|[a-z0-9-]*(?:password|passwd|pass|token|secret|apikey))[ \t]*=(?:[^\n]*\\\n)*[^\n]*$|` +
		`^([ \t]*)[^\n=]*=[^\n]*(?:password=|sshpass|extraheader|authorization:)(?:[^\n]*\\\n)*[^\n]*$|` +
		`^([ \t]*)[#;][^\n]*(?:password|passwd|token|secret|apikey|authorization|://[^/\s]*@)[^\n]*$`)
	// credentialURL matches the part of an address that logs in: before its host, or as a parameter.
	credentialURL = regexp.MustCompile(`(?i)((?:https?|ftps?)://)(?:[^/\s"]|\\"|\\\n)+@|((?:ssh|git|[a-z]+\+ssh)://)(?:[^/\s":]|\\")*:(?:[^/\s"]|\\"|\\\n)*@|` +
		`([?&#;](?:[a-z_-]*(?:token|password|secret|signature|key|auth))=)[^\s"&#;]+`)
)

// withoutCredentials returns a configuration of Git without what logs in somewhere.
func withoutCredentials(config string) string {
	return credentialURL.ReplaceAllString(credentialLine.ReplaceAllString(config, "$1$2$3# a credential, which the sandbox keeps out"), "$1$2$3")
}

func globEscape(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
