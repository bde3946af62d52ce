package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Needs is a program's declaration of the access that it needs besides that of all commands.
type Needs struct {
	Network []string `json:",omitempty"` // hosts; "*" for the network as it is
	Read    []string `json:",omitempty"` // files and folders: relative to the project, "~/…" or absolute
	Write   []string `json:",omitempty"` // folders, the same; they may be read as well
	Off     bool     `json:",omitempty"` // it runs without a sandbox
}

func needKeys() []string { return []string{"network", "read", "write"} }

// Add adds a value of one of the keys of a declaration: network, read or write.
func (n *Needs) Add(key, value string) error {
	if key == "network" {
		if value == "any" {
			value = "*"
		}
		if err := CheckHost(value); err != nil {
			return fmt.Errorf("network: %w (network: any)", err)
		}
		n.Network = append(n.Network, value)
		return nil
	}
	if err := checkPlace(value); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	switch key {
	case "read":
		n.Read = append(n.Read, value)
	case "write":
		n.Write = append(n.Write, value)
	default:
		return fmt.Errorf("%q is not a key of a declaration", key)
	}
	return nil
}

// checkPlace returns what is wrong with a path of a declaration, without reading the disk.
func checkPlace(name string) error {
	_, ofHome := strings.CutPrefix(name, "~/")
	switch clean := filepath.Clean(name); {
	case name == "" || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("%q is not a path", name)
	case strings.Contains(name, "${"):
		return fmt.Errorf("%q: variables are not replaced here; write ~/… or a path", name)
	case clean == "/" || clean == "~":
		return fmt.Errorf("%s is too much; name the folders in it that are needed", name)
	case strings.HasPrefix(name, "~") && !ofHome, !filepath.IsAbs(name) && !filepath.IsLocal(clean):
		return fmt.Errorf("%q is not a path in the project, in the home folder (~/…) or absolute", name)
	}
	return nil
}

// Lines returns a declaration for users, one line for each key.
func (n Needs) Lines() []string {
	var out []string
	for i, list := range [][]string{n.Network, n.Read, n.Write} {
		switch key := needKeys()[i]; {
		case key == "network" && slices.Contains(list, "*"):
			out = append(out, "network: any")
		case len(list) > 0:
			out = append(out, key+": "+strings.Join(list, ", "))
		}
	}
	if n.Off {
		out = append(out, "sandbox: off (it runs with all rights of its user)")
	}
	return out
}

// Within reports whether everything that n declares is declared by m as well.
func (n Needs) Within(m Needs) bool {
	in := func(a, b []string) bool {
		return !slices.ContainsFunc(a, func(v string) bool { return !slices.Contains(b, v) })
	}
	return in(n.Network, m.Network) && in(n.Read, m.Read) && in(n.Write, m.Write) && (!n.Off || m.Off)
}

// Policy returns the access that a declaration grants in a project of a user. A path in the project
// that leads out of it is an error, and so is a folder to write that is not there: nothing could be
// made in its place.
func (n Needs) Policy(root, home string) (Policy, error) {
	p := Policy{Network: n.Network}
	for _, name := range n.Read {
		at, err := place(name, root, home)
		if err != nil {
			return Policy{}, fmt.Errorf("read: %w", err)
		}
		p.Read = append(p.Read, at)
	}
	for _, name := range n.Write {
		at, err := place(name, root, home)
		if err == nil && (root == "" || !within(root, at)) {
			if info, e := os.Stat(at); e != nil {
				err = fmt.Errorf("%s: %w; make the folder first", name, errors.Unwrap(e))
			} else if !info.IsDir() {
				err = fmt.Errorf("%s is a file; name the folder it is in", name)
			}
		}
		if err != nil {
			return Policy{}, fmt.Errorf("write: %w", err)
		}
		p.Write = append(p.Write, at)
	}
	return p, nil
}

// place returns the absolute path for a path of a declaration.
func place(name, root, home string) (string, error) {
	if err := checkPlace(name); err != nil {
		return "", err
	}
	at := name
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		if home == "" {
			return "", fmt.Errorf("%s: there is no home folder", name)
		}
		at = filepath.Join(home, rest)
	} else if !filepath.IsAbs(name) {
		if root == "" {
			return "", fmt.Errorf("%s: there is no project; write ~/… or an absolute path", name)
		}
		at = filepath.Join(root, name)
	}
	at = filepath.Clean(at)
	real, err := filepath.EvalSymlinks(at)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s: %w", name, err)
	case err != nil:
		real = at // nothing is granted before it is there
	case root != "" && within(root, at) && !within(root, real):
		return "", fmt.Errorf("%s is a link out of the project; write the path that it leads to", name)
	}
	if tooMuch(real, home) || tooMuch(at, home) {
		return "", fmt.Errorf("%s is too much; name the folders in it that are needed", name)
	}
	return real, nil
}

// tooMuch reports whether a folder is never granted as a whole, because it holds ways out of the
// sandbox, such as sockets and devices, or all files of the user.
func tooMuch(dir, home string) bool {
	if real, err := filepath.EvalSymlinks(home); err == nil && home != "" && real != home && within(dir, real) {
		return true
	}
	return dir == "/" || home != "" && within(dir, home) ||
		slices.Contains([]string{"/dev", "/proc", "/sys", "/run", "/tmp", "/var", "/var/run", "/var/tmp", "/private", "/private/tmp", "/private/var"}, dir) ||
		strings.HasPrefix(dir, "/proc/") || strings.HasPrefix(dir, "/dev/") || strings.HasPrefix(dir, "/run/user")
}

// Named returns what may be read since a command line names it by an absolute path, alone, after "=" or as a file URL:
// a folder, and of a file the folder of its package (node_modules if it is in one), or else the folder that it is in.
// The file alone is what remains of a folder that is never granted, such as the home folder. What lies in the project
// is left out.
func Named(argv []string, root, home string) []string {
	var out []string
	for _, word := range argv {
		_, value, _ := strings.Cut(word, "=")
		for _, name := range []string{word, value} {
			name = strings.TrimPrefix(name, "file://")
			if !filepath.IsAbs(name) || passes(filepath.Clean(name), root) {
				continue
			}
			out = append(out, around(filepath.Clean(name), home))
			if real, err := filepath.EvalSymlinks(name); err == nil {
				out = append(out, around(real, home))
			}
		}
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(name string) bool { return name == "" })
}

// passes reports whether a path leads through a project, in which links may change.
func passes(name, root string) bool {
	for ; root != "" && name != filepath.Dir(name); name = filepath.Dir(name) {
		if within(root, name) {
			return true
		}
		if real, err := filepath.EvalSymlinks(name); err == nil && within(root, real) {
			return true
		}
	}
	return false
}

// around returns the readable folder around a named path, or "" if there is none.
func around(name, home string) string {
	info, err := os.Stat(name)
	switch {
	case err != nil || tooMuch(name, home):
		return ""
	case info.IsDir():
		return name
	case !info.Mode().IsRegular():
		return "" // a socket or a device leads out
	}
	folder := filepath.Dir(name)
	if above, _, ok := strings.Cut(name, "/node_modules/"); ok {
		return above + "/node_modules" // packages find each other there
	}
	for dir := folder; !tooMuch(dir, home); dir = filepath.Dir(dir) {
		for _, mark := range []string{"package.json", "pyproject.toml", "pyvenv.cfg", "go.mod"} {
			if info, err := os.Stat(filepath.Join(dir, mark)); err == nil && info.Mode().IsRegular() {
				return dir
			}
		}
	}
	if tooMuch(folder, home) {
		return name
	}
	return folder
}

// Declaring returns a view of s for a program that declares what it needs. It may read what its command line names, and
// reach the registry that it fetches what it runs from, which its environment leads it to. The view is nil if the
// declaration turns the sandbox off. Who is what it is called, which has a home folder and caches of its own. Own says that
// the declaration is the user's, whose environment for it may name the registry.
func (s *Sandbox) Declaring(who string, own bool, n Needs, argv, env []string) (view *Sandbox, environ []string, err error) {
	switch {
	case s == nil || n.Off:
		return nil, env, nil
	case s.Mode() == None:
		return s, env, nil
	}
	p, err := n.Policy(s.opt.Root, s.opt.Home)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Concat(p.Read, p.Write) {
		if dir := s.private(name); dir != "" {
			return nil, nil, fmt.Errorf("%s: nothing of %s is granted, which is Superstep's own", name, dir)
		}
	}
	for _, name := range Named(argv, s.opt.Root, s.opt.Home) {
		if s.private(name) == "" {
			p.Read = append(p.Read, name)
		}
	}
	if view, err = s.alone(who); err != nil {
		return nil, nil, err
	}
	says := env
	if !own { // a project names no registry
		says = nil
	}
	hosts, vars := view.launch(argv, says)
	p.Network = slices.Concat(p.Network, hosts)
	view, err = view.With(p)
	return view, append(slices.Clone(env), vars...), err
}

// private returns the private folder that contains a path or lies in it, or "".
func (s *Sandbox) private(name string) string {
	for _, dir := range s.opt.Private {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			real = dir
		}
		if within(dir, name) || within(real, name) || within(name, dir) || within(name, real) {
			return dir
		}
	}
	return ""
}

// symptoms matches messages of programs that were refused a file or the network.
var symptoms = regexp.MustCompile(`(?i)\b(E(ACCES|PERM|ROFS|NOENT|NOTFOUND|AI_AGAIN|CONNREFUSED|NETUNREACH|AFNOSUPPORT|` +
	`HOSTUNREACH|PROTO)|permission denied|operation not permitted|read-only file system|no such file|not allowed|` +
	`network is unreachable|connection refused|could not resolve|name resolution|fetch failed|access denied|Forbidden)\b`)

// Missing returns, as a part of a message, what a command may have lacked: the hosts that it was refused so far, with the line
// that allows them in the file of its declaration, or, if it was refused none, which lines let it do more. Who is the
// command in that sentence, and said what it told of its failure. It is "" if the command is not confined, or if what it said does not
// sound as if it was refused something and nothing new was since the last time. It may be called while the command runs.
func (c *Cmd) Missing(who string, n Needs, file, said string) string {
	if c == nil || c.s.Mode() == None {
		return ""
	}
	file = cmp.Or(file, "its declaration")
	var refused []string
	if c.own != nil {
		c.own.mu.Lock()
		refused = slices.Clone(c.own.refused)
		c.own.mu.Unlock()
	}
	c.mu.Lock()
	fresh := len(refused) > c.told
	c.told = len(refused)
	c.mu.Unlock()
	switch {
	case !fresh && strings.TrimSpace(said) != "" && !symptoms.MatchString(said):
		return ""
	case len(refused) == 0:
		text := fmt.Sprintf("%s runs in a sandbox, and may do more if %s says so: %s, %s, %s", who, file,
			line(file, "network", []string{"HOST"}), line(file, "read", []string{"FOLDER"}), line(file, "write", []string{"FOLDER"}))
		if len(n.Network) > 0 && !slices.Contains(n.Network, "*") {
			text += " (hosts are reached by the proxy of HTTP_PROXY; a program that uses none, such as Node before 22.21, needs network: any)"
		}
		return text
	}
	hosts := slices.Clone(n.Network)
	for _, r := range refused {
		if host, _, err := net.SplitHostPort(r); err == nil && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return fmt.Sprintf("%s was refused %s; add %s in %s", who, strings.Join(refused, ", "), line(file, "network", hosts), file)
}

// line returns a line of a declaration in the syntax of its file.
func line(file, key string, values []string) string {
	ext := filepath.Ext(file)
	if ext == ".yaml" || ext == ".yml" || ext == "" {
		return key + ": [" + strings.Join(values, ", ") + "]"
	}
	var quoted []string
	for _, v := range values {
		quoted = append(quoted, strconv.Quote(v))
	}
	if strings.HasPrefix(ext, ".json") {
		key = strconv.Quote(key)
	}
	return key + ": [" + strings.Join(quoted, ", ") + "]"
}
