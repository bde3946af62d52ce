// Package sandbox starts the commands that a run executes so that the operating system bounds what they do: which
// files they read and write, which hosts they reach, and which processes outlive them.
//
// Rules about the spelling of a command are a convenience; this is the boundary. A command may read the system's
// programs and libraries, toolchains in the home folder and its project; it may write the project less what is
// protected, a temporary folder and a cache of its own; it has no network but the hosts that were allowed.
//
// On Linux that is done with user, mount, process and network namespaces, or, where these are forbidden, with
// Landlock and a seccomp filter; on macOS with a profile for sandbox-exec, which is untested. Elsewhere there
// is no sandbox, and Mode is None.
package sandbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/internal/procgroup"
)

// A Mode is a mechanism that confines commands.
type Mode string

// The modes.
const (
	Namespaces Mode = "namespaces" // Linux: user, mount, process and network namespaces, and seccomp
	Landlock   Mode = "landlock"   // Linux: Landlock and seccomp
	Seatbelt   Mode = "seatbelt"   // macOS: sandbox-exec; untested
	None       Mode = "none"       // nothing does
)

// A Policy is what commands may do besides what Options grant anyway. Its paths are absolute. A symbolic link in a folder that
// commands may write is not followed out of that folder, since a command may have made it.
type Policy struct {
	Read    []string // files and folders that may be read
	Write   []string // folders that may be written, and read
	Network []string // hosts that may be reached, as "example.org", "example.org:443", "*.example.org", or "*" for the network as it is
}

// Options of New.
type Options struct {
	// Root is the folder of the project, an absolute path. Commands may write it except where
	// Protect reports true, and read it except where Hide does. If "", there is no project.
	Root string
	// Protect reports whether an absolute path below a writable folder must not be written. Defaults to nil:
	// only what Git executes is protected.
	Protect func(path string) bool
	// Hide reports whether an absolute path below Root must not be read. Defaults to nil: all may.
	Hide func(path string) bool
	// Masks are names of folders that commands find as empty folders that cannot be written, where nothing has them, at the top of
	// Root and in folders with a repository in it: protected names. Where the mechanism has no mounts, nothing new is made there anyway, or it is moved aside.
	Masks []string
	// Private are files and folders, absolute paths, that no command sees and no declaration grants: those of Superstep itself.
	// Defaults to none.
	Private []string
	// Policy is the additional access of all commands.
	Policy Policy
	// Home is the user's home folder. Commands see only its toolchains, read-only. If "", they see
	// nothing of it.
	Home string
	// Environ is the user's environment, "NAME=value", which says where toolchains are. Defaults to nil.
	Environ []string
	// Cache is a folder for caches that are kept from run to run, made when it is needed. The
	// user's own caches are never written, so that no command can plant something in them that is
	// run outside later. Defaults to "": caches last as long as the Sandbox.
	Cache string
	// Temp is where the temporary folder is made. Defaults to os.TempDir().
	Temp string
	// Warn, if set, is told why the sandbox refuses further commands, and what killed ones had made, for the user. From any goroutine.
	Warn func(text string)
	// Mode, if set, is what to use; New fails where it does not work. Defaults to the best that works.
	Mode Mode
}

// A Sandbox starts confined commands. It is safe for use from several goroutines. A nil *Sandbox
// starts commands unconfined.
type Sandbox struct {
	opt    Options
	extra  Policy // of this view
	apart  string // the folder of its own files in that of the others, "" for those of commands
	reads  bool   // it may write the project only if its policy says so
	shared *shared
}

// shared is what a Sandbox and its views have in common.
type shared struct {
	mode   Mode
	detail string
	why    string // why the mode is None
	temp   string // a private folder: tmp, home, root, hidden
	system layout

	mu                sync.Mutex
	kept              map[string]bool     // what others than commands have written
	scans             map[string]*scanner // by their folders
	hidden, protected map[string]bool     // all that was ever found
	refuses           error               // why no more commands are run, nil as long as they are
}

// New detects what this system supports, and creates a temporary folder. A system without a sandbox
// is no error: the mode is then None, and the caller decides. Close the Sandbox when no command
// runs any more.
func New(opts *Options) (*Sandbox, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	var err error
	for _, dir := range []*string{&o.Root, &o.Home, &o.Cache} {
		if *dir == "" {
			continue
		}
		if !filepath.IsAbs(*dir) {
			return nil, fmt.Errorf("sandbox: folder %q: must be an absolute path", *dir)
		}
	}
	if o.Root != "" {
		if o.Root, err = filepath.EvalSymlinks(o.Root); err != nil {
			return nil, fmt.Errorf("sandbox: %w", err)
		}
	}
	if err := o.Policy.check(); err != nil {
		return nil, err
	}
	s := &Sandbox{opt: o, shared: &shared{scans: map[string]*scanner{}}}
	sweep(cmp.Or(o.Temp, os.TempDir()))
	if s.shared.temp, err = os.MkdirTemp(o.Temp, fmt.Sprintf("%s%d-", tempPrefix, os.Getpid())); err == nil {
		s.shared.temp, err = filepath.EvalSymlinks(s.shared.temp)
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox: make a temporary folder: %w", err)
	}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.unmask()
	return s, nil
}

// The parts of the temporary folder.
const (
	tempFiles  = "tmp"         // what commands see as their temporary folder
	tempHome   = "home"        // what they see as the home folder
	tempRoot   = "root"        // where their file system is put together
	tempHidden = "hidden"      // what they see in place of a folder that is hidden
	tempEmpty  = "hidden-file" // and in place of a file
	tempMask   = "mask"        // what they see in place of a protected name that is missing
)

func (s *Sandbox) prepare() error {
	sh := s.shared
	for name, mode := range map[string]os.FileMode{tempFiles: 0o700, tempHome: 0o700, tempRoot: 0o700, tempHidden: 0, tempMask: 0o555} {
		if err := os.Mkdir(filepath.Join(sh.temp, name), mode); err != nil {
			return fmt.Errorf("sandbox: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(sh.temp, tempEmpty), nil, 0); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	sh.system = s.systemLayout()
	var tried []string
	for _, m := range mechanisms() {
		if s.opt.Mode != "" && m.mode != s.opt.Mode {
			continue
		}
		detail, err := m.probe(s)
		if err == nil {
			sh.mode, sh.detail = m.mode, detail
			return nil
		}
		tried = append(tried, string(m.mode)+": "+err.Error())
	}
	sh.mode, sh.why = None, "this system has no sandbox that Superstep can use"
	if len(tried) > 0 {
		sh.why = strings.Join(tried, "; ")
	}
	if s.opt.Mode != "" && s.opt.Mode != None {
		return fmt.Errorf("sandbox: %s cannot be used here: %s", s.opt.Mode, sh.why)
	}
	return nil
}

// A mechanism is a way to confine commands.
type mechanism struct {
	mode  Mode
	probe func(*Sandbox) (detail string, err error) // tries it
}

// Close removes the temporary folder.
func (s *Sandbox) Close() error {
	if s == nil {
		return nil
	}
	return removeAll(s.shared.temp)
}

// removeAll removes a folder in which commands may have taken away their own rights. It follows no link.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	root, rerr := os.OpenRoot(dir)
	if rerr != nil {
		return err
	}
	defer root.Close()
	var open func(name string)
	open = func(name string) {
		if info, err := root.Lstat(name); err != nil || !info.IsDir() || root.Chmod(name, 0o700) != nil {
			return
		}
		entries, _ := fs.ReadDir(root.FS(), name) // what cannot be read is not removed
		for _, e := range entries {
			if e.IsDir() {
				open(filepath.Join(name, e.Name()))
			}
		}
	}
	open(".")
	return os.RemoveAll(dir)
}

// Mode returns the mechanism that confines commands.
func (s *Sandbox) Mode() Mode {
	if s == nil {
		return None
	}
	return s.shared.mode
}

// String returns the mode with its details, such as "landlock (ABI 7)", or with the reason why
// there is none.
func (s *Sandbox) String() string {
	switch {
	case s == nil:
		return string(None)
	case s.shared.mode == None:
		return string(None) + " (" + s.shared.why + ")"
	case s.shared.detail != "":
		return string(s.shared.mode) + " (" + s.shared.detail + ")"
	}
	return string(s.shared.mode)
}

// With returns a view of s whose commands may do more. It is closed with s.
func (s *Sandbox) With(more Policy) (*Sandbox, error) {
	if s == nil {
		return nil, nil
	}
	if err := more.check(); err != nil {
		return nil, err
	}
	out := *s
	out.extra = s.extra.join(more)
	return &out, nil
}

// Reader returns a view of s whose commands may write the project only where their policy or their declaration says so.
func (s *Sandbox) Reader() *Sandbox {
	if s == nil {
		return nil
	}
	out := *s
	out.reads = true
	return &out
}

// Keep notes the absolute path of a file that is written by something other than a command, so that
// it is not attributed to one.
func (s *Sandbox) Keep(path string) {
	if s == nil {
		return
	}
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	if s.shared.kept == nil {
		s.shared.kept = map[string]bool{}
	}
	s.shared.kept[path] = true
	s.keepFile(path)
}

// keeps reports whether a path was noted by Keep or contains such a path.
func (s *Sandbox) keeps(name string) bool {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	for path := range s.shared.kept {
		if within(name, path) {
			return true
		}
	}
	return false
}

// alone returns a view of s for a program with more rights than others: it has its own home folder,
// temporary folder and caches, so that others cannot plant something there for it to run.
func (s *Sandbox) alone(who string) (*Sandbox, error) {
	out := *s
	out.apart = digest(who)
	for _, name := range []string{tempFiles, tempHome} {
		if err := os.MkdirAll(out.own(name), 0o700); err != nil {
			return nil, fmt.Errorf("sandbox: %w", err)
		}
	}
	return &out, nil
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}

// own returns the temporary folder of this view.
func (s *Sandbox) own(name string) string { return filepath.Join(s.shared.temp, s.apart, name) }

// In returns a view of s whose commands have another folder in place of the project's. It is closed with s.
func (s *Sandbox) In(root string) (*Sandbox, error) {
	if s == nil {
		return nil, nil
	}
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	out := *s
	out.opt.Root = real
	return &out, nil
}

// Network returns the hosts that commands may reach; "*" is any.
func (s *Sandbox) Network() []string {
	if s == nil {
		return []string{"*"}
	}
	return s.policy().Network
}

// policy returns the additional access of the commands of s.
func (s *Sandbox) policy() Policy { return s.opt.Policy.join(s.extra) }

func (p Policy) join(q Policy) Policy {
	return Policy{
		Read:    slices.Concat(p.Read, q.Read),
		Write:   slices.Concat(p.Write, q.Write),
		Network: slices.Concat(p.Network, q.Network),
	}
}

func (p Policy) check() error {
	for _, name := range slices.Concat(p.Read, p.Write) {
		if !filepath.IsAbs(name) {
			return fmt.Errorf("sandbox: path %q: must be absolute", name)
		}
	}
	for _, h := range p.Network {
		if err := CheckHost(h); err != nil {
			return fmt.Errorf("sandbox: network: %w", err)
		}
	}
	return nil
}

// anyNetwork reports whether network access is unrestricted.
func (p Policy) anyNetwork() bool { return slices.Contains(p.Network, "*") }

// Command returns a command that is started within the bounds of s, with a process group of its own. Name is the absolute path of a program. Env
// is its environment, to which the sandbox adds where its caches and its proxy are. When ctx ends, the group is told to
// end and killed after procgroup.Grace.
func (s *Sandbox) Command(ctx context.Context, env []string, name string, args ...string) *Cmd {
	return &Cmd{ctx: ctx, s: s, env: slices.Clone(env), path: name, args: args}
}

// environ returns the part of an environment that commands see, with the variables that the sandbox
// sets.
func (s *Sandbox) environ(env []string, proxyURL string) []string {
	set := map[string]string{"TMPDIR": s.tempSeen(), "TMP": s.tempSeen(), "TEMP": s.tempSeen()}
	name, value, _ := strings.Cut(procgroup.Mark(), "=")
	set[name] = value
	cache := s.cacheDir()
	set["XDG_CACHE_HOME"], set["npm_config_cache"] = cache, filepath.Join(cache, "npm")
	set["GOCACHE"], set["GOTELEMETRY"] = filepath.Join(cache, "go-build"), "off"
	if s.shared.mode != Namespaces { // where the home folder is an empty one, not one that cannot be read
		set["GIT_CONFIG_GLOBAL"] = os.DevNull
	}
	if proxyURL != "" {
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "npm_config_proxy", "npm_config_https_proxy"} {
			set[name] = proxyURL
		}
		// The command has its own loopback interface, unless that of this machine was allowed.
		direct := strings.Join(slices.DeleteFunc([]string{"localhost", "127.0.0.1", "::1"}, func(h string) bool { return allowed(s.policy().Network, h, "") }), ",")
		set["NO_PROXY"], set["no_proxy"], set["npm_config_noproxy"], set["NODE_USE_ENV_PROXY"] = direct, direct, direct, "1"
	}
	drop := []string{"XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS",
		"DISPLAY", "WAYLAND_DISPLAY"}
	granted := slices.Concat(s.policy().Read, s.policy().Write)
	out := make([]string, 0, len(env)+len(set))
	seen := map[string]bool{}
	for _, v := range slices.Backward(slices.Concat(s.userVariables(), env)) { // the last of a name counts, as in os/exec
		name, value, _ := strings.Cut(v, "=")
		dropped := slices.Contains(drop, name) && !slices.ContainsFunc(granted, func(at string) bool { return strings.HasPrefix(name, "XDG_") && within(value, at) })
		if _, ours := set[name]; !ours && !seen[name] && !dropped {
			out = append(out, v)
		}
		seen[name] = true
	}
	slices.Reverse(out)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		out = append(out, name+"="+set[name])
	}
	return out
}

// tempSeen returns the temporary folder as commands see it.
func (s *Sandbox) tempSeen() string {
	if s.shared.mode == Namespaces {
		return "/tmp"
	}
	return s.own(tempFiles)
}

// cacheDir returns where the caches of commands are.
func (s *Sandbox) cacheDir() string {
	switch {
	case s.opt.Cache != "" && s.apart == "":
		return filepath.Join(s.opt.Cache, "commands")
	case s.opt.Cache != "":
		return filepath.Join(s.opt.Cache, s.apart)
	}
	return filepath.Join(s.tempSeen(), "cache")
}
