// Package pgserver runs private Postgres servers for tests: from the programs of
// Debian's package postgresql, in a folder and on a port of their own, with fsync on.
// They can be stopped, killed, restarted, followed by a standby and promoted.
package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/superstep-dev/superstep/internal/faults"
)

// A Server is one server. Its methods may be called from several goroutines.
type Server struct {
	bin, dir string // the programs; the folder, in which the data are in data
	port     int
	settings map[string]string

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has ended
}

const (
	startWithin = 60 * time.Second
	superuser   = "superstep"
)

// binaries returns the folder of the server's programs. Without them the test is skipped, or fails if CI is true in the environment.
func binaries(tb testing.TB) string {
	tb.Helper()
	path, err := filepath.EvalSymlinks(faults.Need(tb, faults.Postgres))
	if err != nil {
		tb.Fatal(err)
	}
	return filepath.Dir(path)
}

// Start starts a server that is stopped, and its folder removed, when the test ends.
// Settings are those of postgresql.conf, beside the ones that Start needs itself; nil for none. Without
// the programs the test is skipped, or fails if CI is true in the environment.
func Start(tb testing.TB, settings map[string]string) *Server {
	tb.Helper()
	s, err := open(binaries(tb), settings)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// Shared is a server that the tests of a package share: the first one starts it. The zero
// value is ready. TestMain calls Close behind the last test.
type Shared struct {
	once   sync.Once
	server *Server
	err    error
}

// Server returns the server. Without the programs the test is skipped, as in Start.
func (s *Shared) Server(tb testing.TB) *Server {
	tb.Helper()
	bin := binaries(tb)
	s.once.Do(func() { s.server, s.err = open(bin, nil) })
	if s.err != nil {
		tb.Fatal(s.err)
	}
	return s.server
}

// Close stops the server if one was started.
func (s *Shared) Close() {
	s.once.Do(func() { s.err = errors.New("the shared server was closed") })
	if s.server != nil {
		s.server.Close()
	}
}

func open(bin string, settings map[string]string) (*Server, error) {
	s, err := prepare(bin)
	if err != nil {
		return nil, err
	}
	s.settings = settings
	if err := s.run("initdb", "-D", s.data(), "-U", superuser, "-A", "trust", "--encoding=UTF8", "--locale=C", "--no-sync"); err != nil {
		s.Close()
		return nil, err
	}
	if err := s.start(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// prepare creates a server's folder and finds it a port.
func prepare(bin string) (*Server, error) {
	s := &Server{bin: bin}
	var err error
	if s.dir, err = os.MkdirTemp(root(), "pgserver-"); err != nil {
		return nil, err
	}
	if err := own(s.dir); err != nil {
		s.Close()
		return nil, err
	}
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		s.Close()
		return nil, err
	}
	if addr, ok := l.Addr().(*net.TCPAddr); ok {
		s.port = addr.Port
	}
	return s, l.Close()
}

// root returns a folder for temporary files that the server's user can reach.
func root() string {
	dir := os.TempDir()
	if os.Geteuid() != 0 {
		return dir
	}
	for d := dir; ; d = filepath.Dir(d) {
		if info, err := os.Stat(d); err != nil || info.Mode().Perm()&1 == 0 {
			return "/tmp"
		}
		if d == filepath.Dir(d) {
			return dir
		}
	}
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TZ=UTC"}
	asUser(cmd)
	return cmd
}

func (s *Server) run(name string, args ...string) error {
	if out, err := s.command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// start runs the server until it takes connections.
func (s *Server) start() error {
	begin := time.Now()
	for {
		err := s.tryStart()
		// The memory of one that was killed may take a moment to go.
		if err == nil || time.Since(begin) > startWithin || !strings.Contains(s.tail(), "shared memory") {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (s *Server) tryStart() error {
	log, err := os.OpenFile(s.log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"-D", s.data(), "-p", strconv.Itoa(s.port), "-k", s.dir,
		"-c", "listen_addresses=127.0.0.1", "-c", "fsync=on", "-c", "max_connections=100"}
	for name, value := range s.settings {
		args = append(args, "-c", name+"="+value)
	}
	cmd := s.command("postgres", args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	s.mu.Lock()
	s.cmd, s.exited = cmd, exited
	s.mu.Unlock()
	return s.ready(exited)
}

// ready waits until the server takes connections.
func (s *Server) ready(exited <-chan struct{}) error {
	ctx, stop := context.WithTimeout(context.Background(), startWithin)
	defer stop()
	for {
		c, err := pgconn.Connect(ctx, s.DSN())
		if err == nil {
			return c.Close(ctx)
		}
		select {
		case <-exited:
			return fmt.Errorf("the server has ended: %s", s.tail())
		case <-ctx.Done():
			return fmt.Errorf("the server does not start: %w\n%s", err, s.tail())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s *Server) log() string { return filepath.Join(s.dir, "log") }

// tail returns the end of the server's log.
func (s *Server) tail() string {
	log := s.Log()
	return log[max(0, len(log)-2000):]
}

// DSN returns the address of the server's first database.
func (s *Server) DSN() string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/postgres?sslmode=disable", superuser, s.port)
}

// Addr returns the server's host and port.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// Log returns what the server has logged.
func (s *Server) Log() string {
	b, _ := os.ReadFile(s.log())
	return string(b)
}

// Stop stops the server as an administrator does: connections are cut, what is
// committed is written.
func (s *Server) Stop(tb testing.TB) { s.end(tb, os.Interrupt) }

// Kill ends the server and all its processes at once, with SIGKILL.
func (s *Server) Kill(tb testing.TB) { s.end(tb, os.Kill) }

func (s *Server) end(tb testing.TB, sig os.Signal) {
	tb.Helper()
	if err := s.signal(sig); err != nil {
		tb.Error(err)
	}
}

func (s *Server) signal(sig os.Signal) error {
	s.mu.Lock()
	cmd, exited := s.cmd, s.exited
	s.cmd = nil
	s.mu.Unlock()
	if cmd == nil {
		return nil
	}
	var children []int
	if sig == os.Kill {
		children = childrenOf(cmd.Process.Pid)
	}
	if err := cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	for _, pid := range children {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	}
	select {
	case <-exited:
		return nil
	case <-time.After(startWithin):
		_ = cmd.Process.Kill()
		return fmt.Errorf("the server did not stop within %s", startWithin)
	}
}

// childrenOf returns the processes that a process has started, where the system tells it.
func childrenOf(pid int) (pids []int) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, field := range bytes.Fields(b) {
		if n, err := strconv.Atoi(string(field)); err == nil {
			pids = append(pids, n)
		}
	}
	return pids
}

// Restart starts a server that was stopped or killed, on the same port.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	if err := s.start(); err != nil {
		tb.Error(err)
	}
}

// Close stops the server and removes its folder.
func (s *Server) Close() {
	_ = s.signal(os.Interrupt)
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// Exec runs SQL that returns no rows, as the server's superuser.
func (s *Server) Exec(tb testing.TB, sql string) {
	tb.Helper()
	if err := s.exec(sql); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

func (s *Server) exec(sql string) error {
	ctx, stop := context.WithTimeout(context.Background(), startWithin)
	defer stop()
	c, err := pgconn.Connect(ctx, s.DSN())
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, sql).ReadAll()
	return errors.Join(err, c.Close(ctx))
}

// Standby starts a standby of the server, which follows it until one of them is stopped or
// the standby is promoted. With sync, commits on the server wait until the standby has
// them on its disk.
func (s *Server) Standby(tb testing.TB, sync bool) *Server {
	tb.Helper()
	b, err := prepare(s.bin)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(b.Close)
	name := fmt.Sprintf("standby%d", b.port)
	conn := fmt.Sprintf("host=127.0.0.1 port=%d user=%s application_name=%s", s.port, superuser, name)
	err = b.run("pg_basebackup", "-D", b.data(), "-d", conn, "-R", "-X", "stream", "-c", "fast", "--no-sync")
	if err == nil {
		b.settings = s.settings
		err = b.start()
	}
	if err == nil {
		names := ""
		if sync {
			names = name
		}
		err = errors.Join(s.exec("ALTER SYSTEM SET synchronous_standby_names = '"+names+"'"), s.exec("SELECT pg_reload_conf()"))
	}
	if err != nil {
		tb.Fatalf("starting a standby: %v\n%s", err, b.tail())
	}
	s.followed(tb, name, sync)
	return b
}

// followed waits until the standby follows.
func (s *Server) followed(tb testing.TB, name string, sync bool) {
	tb.Helper()
	want := "async"
	if sync {
		want = "sync"
	}
	sql := fmt.Sprintf("DO $$ BEGIN ASSERT EXISTS (SELECT FROM pg_stat_replication WHERE application_name = '%s' AND state = 'streaming' AND "+
		"sync_state = '%s'); END $$", name, want)
	begin := time.Now()
	for {
		err := s.exec(sql)
		if err == nil {
			return
		}
		if time.Since(begin) > startWithin {
			tb.Fatalf("the standby does not follow: %v\n%s", err, s.tail())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Promote promotes a standby to an independent primary without synchronous standbys.
func (s *Server) Promote(tb testing.TB) {
	tb.Helper()
	err := s.exec("SELECT pg_promote()")
	for range 20 { // what is replayed may be in the statement's way
		if err == nil || !strings.Contains(err.Error(), "40001") {
			break
		}
		time.Sleep(100 * time.Millisecond)
		err = s.exec("SELECT CASE WHEN pg_is_in_recovery() THEN pg_promote() ELSE true END")
	}
	if err == nil {
		err = errors.Join(s.exec("ALTER SYSTEM SET synchronous_standby_names = ''"), s.exec("SELECT pg_reload_conf()"))
	}
	if err != nil {
		tb.Fatalf("promoting: %v\n%s", err, s.tail())
	}
}
