package sandbox

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A layout lists the trees of the file system that a command sees.
type layout struct {
	trees map[string]bool   // absolute paths without symbolic links, to whether they may be written
	links map[string]string // symbolic links on the way to them
	hide  []string          // what is hidden of them
}

// add adds a tree at its real path, with the links that lead to it. Missing trees are left out, and
// so are targets outside a writable tree of links within it.
func (l *layout) add(name string, write bool) {
	real, links := l.resolve(name)
	if real == "" || real == "/" {
		return
	}
	maps.Copy(l.links, links)
	l.trees[real] = l.trees[real] || write
}

// resolve returns where a path leads, and by which links.
func (l *layout) resolve(name string) (string, map[string]string) {
	links := map[string]string{}
	real := follow(filepath.Clean(name), 40, func(link, to string) bool { links[link] = to; return true })
	for link := range links {
		for tree, write := range l.trees {
			if write && within(tree, link) && !within(tree, real) {
				return "", nil // a command may have made the link
			}
		}
	}
	return real, links
}

// follow returns the target of a path, and calls link with the links on the way and what they hold, until that is false. It returns "" if there is no
// target.
func follow(name string, left int, link func(name, to string) bool) string {
	at := string(filepath.Separator)
	if v := filepath.VolumeName(name); v != "" {
		at = v + at
	}
	rest := strings.Split(strings.Trim(filepath.ToSlash(strings.TrimPrefix(name, filepath.VolumeName(name))), "/"), "/")
	for i, part := range rest {
		switch part {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, part)
		info, err := os.Lstat(next)
		if err != nil {
			return ""
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		target, err := os.Readlink(next)
		if err != nil || left == 0 || !link(next, target) {
			return ""
		}
		if !filepath.IsAbs(target) {
			target = at + "/" + target // not yet without .., since what is before that may be a link
		}
		return follow(strings.Join(append([]string{target}, rest[i+1:]...), "/"), left-1, link)
	}
	return at
}

// sorted returns the trees with outer ones before inner ones, and leaves out redundant ones.
func (l *layout) sorted() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(l.trees)) {
		around, ok := l.around(name)
		if !ok || l.trees[around] != l.trees[name] {
			out = append(out, name)
		}
	}
	return out
}

// around returns the nearest tree that holds a path, other than the path itself.
func (l *layout) around(name string) (string, bool) {
	for dir := filepath.Dir(name); ; dir = filepath.Dir(dir) {
		if _, ok := l.trees[dir]; ok {
			return dir, true
		}
		if dir == filepath.Dir(dir) {
			return "", false
		}
	}
}

// holds reports whether a tree contains a path or is equal to it.
func (l *layout) holds(name string) bool {
	if _, ok := l.trees[name]; ok {
		return true
	}
	_, ok := l.around(name)
	return ok
}

func (l *layout) clone() layout {
	return layout{trees: maps.Clone(l.trees), links: maps.Clone(l.links), hide: slices.Clone(l.hide)}
}

// within reports whether a path is a folder or below it.
func within(dir, name string) bool {
	return dir != "" && (name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator)))
}

// systemLayout returns what all commands see besides their project: programs, libraries and
// toolchains.
func (s *Sandbox) systemLayout() layout {
	l := layout{trees: map[string]bool{}, links: map[string]string{}}
	for _, dir := range systemTrees() {
		s.addSystem(&l, dir)
	}
	system := maps.Clone(l.trees) // what follows is the user's: folders of PATH and toolchains, which root may have closed to others
	if s.opt.Root != "" {
		l.add(s.opt.Root, true) // what links in it lead to is not the system's
	}
	l.hide = append(l.hide, systemSecrets()...)
	home := s.opt.Home
	if home != "" && home != "/" {
		for _, name := range toolchains() {
			l.add(filepath.Join(home, name), false)
		}
		for _, name := range toolchainSecrets() {
			l.hide = append(l.hide, filepath.Join(home, name))
		}
	}
	for _, v := range s.opt.Environ {
		name, value, _ := strings.Cut(v, "=")
		switch name {
		case "PATH":
			for _, dir := range filepath.SplitList(value) {
				s.addProgram(&l, dir)
			}
		default:
			if !slices.Contains(toolchainVariables(), name) {
				continue
			}
			if filepath.IsAbs(value) && !within(value, home) {
				s.addSystem(&l, value)
			}
		}
	}
	if os.Geteuid() == 0 { // whom no mode keeps out
		for name := range system {
			if !slices.ContainsFunc(packaged(), func(dir string) bool { return within(dir, name) }) && !within(s.opt.Root, name) && !within(home, name) {
				l.hide = append(l.hide, unreadable(name)...)
			}
		}
		slices.Sort(l.hide)
		l.hide = slices.Compact(l.hide)
	}
	return l
}

// packaged are trees that hold only what packages installed, for everybody.
func packaged() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/gnu/store", "/snap", "/sys", "/run"}
}

// unreadable returns the files and folders of a tree that others than their owner and group may not read.
func unreadable(dir string) []string {
	var out []string
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error { // what is gone is not read
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return nil
		}
		info, err := d.Info()
		switch {
		case err != nil:
			return nil
		case d.IsDir() && info.Mode()&0o005 != 0o005:
			out = append(out, name)
			return filepath.SkipDir
		case !d.IsDir() && info.Mode()&0o004 == 0:
			out = append(out, name)
		}
		return nil
	})
	return out
}

// addProgram adds a folder of PATH, and what its programs need: bin is beside lib.
func (s *Sandbox) addProgram(l *layout, dir string) {
	if !filepath.IsAbs(dir) {
		return
	}
	if real, _ := l.resolve(dir); real != "" {
		if parent := filepath.Dir(real); filepath.Base(real) == "bin" && parent != "/" && !within(parent, s.opt.Home) && filepath.Base(parent) != ".local" {
			for _, beside := range []string{"lib", "lib64", "libexec", "share", "include", "pkg", "src", "api", "misc", "test", "VERSION", "go.env"} {
				s.addSystem(l, filepath.Join(parent, beside))
			}
		}
	}
	if !within(dir, s.opt.Home) {
		s.addSystem(l, dir)
	}
}

// addSystem adds a tree of the system, without the home folder if that is within it.
func (s *Sandbox) addSystem(l *layout, name string) {
	real, _ := l.resolve(name)
	home := follow(filepath.Clean(s.opt.Home), 40, func(string, string) bool { return true })
	if real == "" || home == "" || !within(real, home) {
		l.add(name, false)
		return
	}
	entries, err := os.ReadDir(real)
	if err != nil || real == home || real == "/" {
		return
	}
	for _, e := range entries {
		s.addSystem(l, filepath.Join(real, e.Name()))
	}
}

// systemTrees returns the folders of programs, libraries and their configuration on usual systems.
func systemTrees() []string {
	return []string{
		"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/etc", "/etc/resolv.conf", "/opt", "/nix", "/gnu/store", "/snap", "/home/linuxbrew",
		"/run/current-system", "/run/wrappers", "/sys/devices/system", "/sys/kernel/mm/transparent_hugepage", "/var/lib/ca-certificates",
		"/System", "/Library", "/private/etc", "/private/var/db/timezone", "/private/var/select", // macOS
	}
}

// systemSecrets lists files below them that stay hidden, even if every user may read them.
func systemSecrets() []string {
	return []string{
		"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssh", "/etc/ssl/private",
		"/etc/NetworkManager/system-connections",
		"/etc/docker", "/etc/kubernetes", "/etc/rancher", "/etc/superstep",
	}
}

// toolchains returns the paths in the home folder with programs and packages, and the global ignore
// file of Git, which fails if it may not read that file.
func toolchains() []string {
	return []string{
		"go/pkg", "go/bin", ".gvm", ".config/go", ".cargo", ".rustup", ".nvm", ".volta", ".fnm", ".local/share/fnm", ".local/share/pnpm", ".bun",
		".deno", ".asdf", ".local/share/mise",
		".pyenv", ".rbenv", ".gem", ".sdkman", ".m2/repository", ".gradle/wrapper", ".gradle/caches", ".dotnet", ".nuget/packages", ".local/bin", ".local/lib",
		".local/share/uv", ".local/share/pipx", ".local/pipx", ".ghcup", ".juliaup", ".opam", ".swiftly", ".config/git/ignore", ".config/git/attributes",
	}
}

// toolchainSecrets are files below them that hold keys.
func toolchainSecrets() []string {
	return []string{".cargo/credentials", ".cargo/credentials.toml", ".local/share/uv/credentials", ".m2/repository/settings.xml",
		".nuget/NuGet.Config", ".gem/credentials", ".sdkman/etc/credentials"}
}

// layout returns the trees that this command sees.
func (c *Cmd) layout() layout {
	s := c.s
	l := s.shared.system.clone()
	p := s.policy()
	if s.opt.Root != "" {
		// A toolchain of the project is part of it.
		maps.DeleteFunc(l.trees, func(name string, _ bool) bool { return within(s.opt.Root, name) })
		l.add(s.opt.Root, !s.reads)
	}
	if s.opt.Cache != "" {
		_ = os.MkdirAll(s.cacheDir(), 0o700) // without it commands have no caches
		l.add(s.cacheDir(), true)
	}
	for _, name := range slices.Sorted(slices.Values(p.Write)) {
		l.add(name, true)
	}
	for _, name := range p.Read {
		l.add(name, false)
	}
	for _, name := range s.opt.Private {
		if !within(name, s.opt.Root) { // a folder in it that commands were given is theirs
			l.hide = append(l.hide, name)
		}
	}
	return l
}
