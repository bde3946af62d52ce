package permit

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// Protected is a file or folder that decides what runs later or what agents may do: files that
// Superstep, git, a shell or an editor loads as code or as rules, and keys. No tool may write it or
// anything below it, whether it exists or not, and names match in any letter case. Files that run
// only in a build, such as a Makefile, are ordinary work and not protected.
type Protected struct {
	// Path has slashes, and a folder ends in one. It is relative to the root of the policy, or absolute, or begins
	// with "**/": then it is protected at any depth, inside and outside of the root.
	Path string
	// Why describes the content in a few words for errors, such as "configuration of agents".
	Why string
	// Ask means that each write requires approval, whatever the rules allow, instead of being
	// denied.
	Ask bool
}

const (
	ofAgents  = "configuration of agents"
	ofGit     = "configuration and hooks of Git"
	ofEditors = "configuration of an editor, which can run programs"
	ofShells  = "read by shells when they start"
	ofJobs    = "jobs of continuous integration"
	ofKeys    = "keys and how to use them"
	ofLogins  = "configuration of programs that run by themselves"
	ofPrompts = "instructions that agents read when they start"
)

// alwaysProtected returns what every policy protects: what programs other than Superstep load, and
// Superstep's own folder. Other files that Superstep reads are listed by the packages that read
// them: see Options.Protected.
func alwaysProtected() []Protected {
	var out []Protected
	add := func(why string, ask bool, names ...string) {
		for _, name := range names {
			out = append(out, Protected{Path: "**/" + name, Why: why, Ask: ask})
		}
	}
	// Settings, hooks, tools, servers and definitions of coding agents.
	add(ofAgents, false, ".superstep/", ".claude/", ".opencode/", ".codex/", ".cursor/", ".gemini/", ".windsurf/", ".agents/", ".copilot/",
		".continue/", ".roo/", ".cline/", ".kiro/", ".junie/", ".qwen/", ".amp/", ".augment/", ".crush/", ".factory/", ".kilocode/", ".trae/", ".goose/",
		".openhands/", ".codeium/", ".tabnine/", ".sourcegraph/", ".amazonq/",
		".mcp.json", ".claude.json", "opencode.json", "opencode.jsonc", "crush.json", ".crush.json", ".aider.conf.yml", ".aider.model.settings.yml")
	// Hooks run at a commit or a checkout, and a configuration can name programs. .gitattributes only picks from
	// the programs of a configuration.
	add(ofGit, false, ".git/", ".gitconfig", ".gitmodules", ".config/git/", ".husky/", ".githooks/", "lefthook.yml", ".lefthook.yml", ".lefthook/",
		".pre-commit-config.yaml", ".hg/", ".jj/")
	// Tasks, debuggers, language servers and start commands, which run when a folder is opened.
	add(ofEditors, false, ".vscode/", ".idea/", ".zed/", ".fleet/", ".devcontainer/", ".devcontainer.json", ".exrc", ".vimrc", ".nvimrc",
		".lvimrc", ".local.vimrc", ".vim/", ".helix/", ".nova/", ".theia/", ".vs/", "*.code-workspace", "*.sublime-project", "*.sublime-workspace", ".nvim.lua", ".dir-locals.el", ".dir-locals-2.el", ".config/nvim/", ".config/zed/")
	// Shells read these at each start, direnv, mise, interpreters and debuggers in each folder.
	add(ofShells, false, ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc", ".zshrc", ".zshenv",
		".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc",
		".login", ".envrc", ".mise.toml", "mise.toml", ".mise/", "mise/config.toml", "mise.*.toml", ".mise.*.toml", ".autoenv", ".autoenv.zsh", ".autoenv_leave.zsh",
		".shadowenv.d/", ".devbox/", ".flox/", ".Rprofile", ".irbrc", ".pryrc", ".pdbrc", ".ghci", ".ocamlinit", ".gdbinit", ".lldbinit", ".config/fish/", ".config/direnv/", ".config/mise/")
	// Jobs that other machines run, with keys of their own. Those of GitHub are in the tables of the catalog.
	add(ofJobs, false, ".gitlab-ci.yml", ".gitlab/", ".circleci/", ".travis.yml", "appveyor.yml", ".appveyor.yml", "azure-pipelines.yml", ".azure-pipelines/",
		"bitbucket-pipelines.yml", "Jenkinsfile", ".drone.yml", ".woodpecker.yml", ".woodpecker.yaml", ".woodpecker/", ".buildkite/", ".semaphore/", ".cirrus.yml", ".gitea/",
		".forgejo/", ".teamcity/", ".tekton/", "cloudbuild.yaml", "buildspec.yml", ".build.yml", ".builds/", ".onedev-buildspec.yml", ".rwx/")
	add(ofKeys, false, ".ssh/", ".gnupg/", ".aws/", ".kube/", ".docker/", ".netrc", ".npmrc", ".pypirc", ".git-credentials")
	add(ofLogins, false, ".config/superstep/", ".config/opencode/", ".config/autostart/", ".config/systemd/", ".config/environment.d/",
		"Library/LaunchAgents/", "Library/LaunchDaemons/")
	// Text that is put into prompts. Users let agents write it, so such a write is asked about.
	add(ofPrompts, true, "AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", "QWEN.md", "CRUSH.md", "AGENT.md",
		".cursorrules", ".windsurfrules", ".clinerules", ".goosehints", ".roorules", ".kilocoderules", ".augment-guidelines")
	return out
}

// A guard is a Protected ready for matching.
type guard struct {
	Protected
	names  []string // folded
	abs    bool
	anyDir bool
}

// guards compiles what is protected. Entries that deny come before those that ask.
func guards(list []Protected) ([]guard, error) {
	var out []guard
	for _, x := range list {
		text, anyDir := strings.CutPrefix(filepath.ToSlash(x.Path), "**/")
		abs := path.IsAbs(text) || filepath.IsAbs(filepath.FromSlash(text))
		names := folded(text)
		if len(names) == 0 || slices.Contains(names, "..") || abs && anyDir {
			return nil, fmt.Errorf("permissions: protected path %q: want a path below the root, an absolute one, or **/ and names", x.Path)
		}
		x.Path, x.Why = filepath.ToSlash(x.Path), cmp.Or(x.Why, "configuration")
		out = append(out, guard{Protected: x, names: names, abs: abs, anyDir: anyDir})
	}
	slices.SortStableFunc(out, func(a, b guard) int {
		switch {
		case a.Ask == b.Ask:
			return 0
		case b.Ask:
			return -1
		}
		return 1
	})
	var once []guard
	for _, g := range out {
		if !slices.ContainsFunc(once, func(o guard) bool { return o.abs == g.abs && o.anyDir == g.anyDir && slices.Equal(o.names, g.names) }) {
			once = append(once, g)
		}
	}
	return once, nil
}

// folded returns the names of a path in the form that file systems may reduce them to.
func folded(name string) []string {
	var out []string
	for part := range strings.SplitSeq(name, "/") {
		if part != "" && part != "." {
			out = append(out, foldName(part))
		}
	}
	return out
}

// spot is a location whose names are folded.
type spot struct {
	rel, abs []string // abs is rel if there is no root
	above    int      // how many names of abs are those of the root itself
}

func spotOf(l location) spot {
	s := spot{rel: folded(l.rel), abs: folded(l.abs)}
	switch {
	case l.abs == "":
		s.abs = s.rel
	case l.rel != "":
		s.above = len(s.abs) - len(s.rel)
	}
	return s
}

// covers reports whether a path is the protected one or lies below it. The names of the root itself
// do not count: a project may lie in a folder that is protected for others.
func (g *guard) covers(s *spot) bool {
	switch {
	case g.abs:
		return begins(s.abs, g.names)
	case !g.anyDir:
		return begins(s.rel, g.names)
	}
	for i := range s.abs {
		if i+len(g.names) > s.above && begins(s.abs[i:], g.names) {
			return true
		}
	}
	return false
}

func begins(parts, names []string) bool {
	if len(parts) < len(names) {
		return false
	}
	for i, name := range names {
		if parts[i] != name && !shortOf(parts[i], name) && !starred(parts[i], name) {
			return false
		}
	}
	return true
}

// starred reports whether a name fits one that has a star.
func starred(s, name string) bool {
	before, after, ok := strings.Cut(name, "*")
	return ok && len(s) >= len(name) && strings.HasPrefix(s, before) && strings.HasSuffix(s, after)
}

// shortOf reports whether a name may be the short form that Windows gives another, as git~1 is of .git.
func shortOf(short, name string) bool {
	stem, number, ok := strings.Cut(short, "~")
	number, _, _ = strings.Cut(number, ".")
	if !ok || number == "" || strings.Trim(number, "0123456789") != "" {
		return false
	}
	name = strings.TrimLeft(name, ".")
	name, _, _ = strings.Cut(name, ".")
	return stem == name[:min(len(name), 6)]
}

// foldName returns a name in the form that file systems may reduce it to: without case, without
// characters that some ignore, and without what Windows leaves off its end.
func foldName(s string) string {
	s = strings.Map(func(c rune) rune {
		if unicode.Is(unicode.Cf, c) {
			return -1
		}
		return unicode.ToLower(unicode.ToUpper(c)) // both: some letters, such as a long s, have only an upper case
	}, s)
	s, _, _ = strings.Cut(s, "::$")
	if t := strings.TrimRight(s, " ."); t != "" {
		s = t
	}
	return s
}

// protection returns why a path is protected, or nil if it is not or if the user excepted it.
func (p *Policy) protection(l location) *Protected {
	s := spotOf(l)
	for i := range p.guards {
		if !p.guards[i].covers(&s) {
			continue
		}
		for _, r := range p.unprotect {
			if r.match.match(&unit{paths: []location{l}}, true) == yes {
				return nil
			}
		}
		return &p.guards[i].Protected
	}
	return nil
}

// Folders returns the names of folders that are protected wherever they are, without those that the user excepted at the root: where nothing
// has such a name, an empty folder in its place disturbs nobody.
func (p *Policy) Folders() []string {
	var out []string
	for i := range p.guards {
		g := &p.guards[i]
		name, folder := strings.CutSuffix(strings.TrimPrefix(g.Path, "**/"), "/")
		if g.Ask || g.abs || !g.anyDir || !folder || strings.ContainsAny(name, "/*") {
			continue
		}
		if p.protection(p.locate(name)) != nil && name != ".git" { // which a command may make
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// guardWrite notes in a unit that writes files that one of them is protected.
func (p *Policy) guardWrite(u *unit) {
	for _, l := range u.paths {
		switch x := p.protection(l); {
		case x == nil:
		case x.Ask:
			u.ask = fmt.Sprintf("writing %s is asked about each time, whatever is allowed (%s)", l.shown(), x.Why)
		case u.protected == "":
			u.protected = fmt.Sprintf("%s is protected (%s), and no rule may allow writing it; only the user's own list of exceptions can", l.shown(), x.Why)
		}
	}
}

// Protected returns why no tool may write a path, or "". Tools use it to check once more where a path leads.
func (p *Policy) Protected(name string) string {
	u := unit{paths: p.locations(name)}
	p.guardWrite(&u)
	return u.protected
}

// Unwritable reports whether a path is protected, including paths that would be asked about: no
// user can be asked while a command runs.
func (p *Policy) Unwritable(name string) bool { return p.protection(p.locate(name)) != nil }
