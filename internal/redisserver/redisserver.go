// Package redisserver runs a private redis-server for tests, with the program of the
// system's package, on a port and in a folder of its own.
package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"

	"github.com/superstep-dev/superstep/internal/faults"
)

// A Server is a redis-server that ends with its test. Its methods are for one goroutine.
type Server struct {
	tb   testing.TB
	dir  string
	port int
	args []string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// startTimeout is long enough for busy machines.
const startTimeout = 30 * time.Second

// Start starts a server, and stops it when the test ends. It keeps nothing on disk unless lines of
// its configuration say so, like "appendonly yes" or "save 60 1000". Without the program
// redis-server the test is skipped, or fails if the environment says CI=true.
func Start(tb testing.TB, config ...string) *Server {
	tb.Helper()
	program := faults.Need(tb, faults.Redis)
	s := &Server{tb: tb, dir: tb.TempDir()}
	tb.Cleanup(s.Kill)
	var err error
	for range 5 { // somebody else may take the port first
		s.port = freePort(tb)
		s.args = append([]string{program}, s.arguments(config)...)
		if err = s.start(); err == nil {
			return s
		}
	}
	tb.Fatal(err)
	return nil
}

func (s *Server) arguments(config []string) (args []string) {
	lines := []string{
		"port " + strconv.Itoa(s.port), "bind 127.0.0.1", "dir " + s.dir, "daemonize no", "logfile " + filepath.Join(s.dir, "log"),
		"loglevel warning", "appendonly no", "appendfsync always",
	}
	if !slices.ContainsFunc(config, func(line string) bool { return strings.HasPrefix(line, "save ") }) {
		args = []string{"--save", ""}
	}
	for _, line := range append(lines, config...) {
		words := strings.Fields(line)
		args = append(append(args, "--"+words[0]), words[1:]...)
	}
	return args
}

func freePort(tb testing.TB) int {
	tb.Helper()
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		tb.Fatalf("listening on %s", l.Addr())
	}
	return addr.Port
}

// Addr returns the host and port of the server.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// URL returns the address of the server's first database.
func (s *Server) URL() string { return "redis://" + s.Addr() + "/0" }

// Dir returns the folder of the server's files.
func (s *Server) Dir() string { return s.dir }

// start starts the process and waits until it answers, with its data read.
func (s *Server) start() error {
	cmd := exec.CommandContext(context.Background(), s.args[0], s.args[1:]...)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting redis-server: %w", err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	s.cmd, s.done = cmd, done
	err := s.ready()
	if err != nil {
		s.Kill()
		log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		err = fmt.Errorf("redis-server does not answer: %w\n%s", err, log)
	}
	return err
}

func (s *Server) ready() error {
	var err error
	for end := time.Now().Add(startTimeout); time.Now().Before(end); {
		select {
		case <-s.done:
			return errors.New("it ended")
		case <-time.After(5 * time.Millisecond):
		}
		if _, err = s.Do("PING"); err == nil {
			return nil
		}
	}
	return err
}

// Do executes a command over a separate connection.
func (s *Server) Do(command string, args ...any) (any, error) {
	c, err := redigo.Dial("tcp", s.Addr(), redigo.DialReadTimeout(startTimeout))
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	return c.Do(command, args...)
}

// Kill ends the process with SIGKILL, and waits for that. It is idempotent.
func (s *Server) Kill() { s.end(os.Kill) }

// Stop ends the process as an operator would, and waits for that.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

func (s *Server) end(sig os.Signal) {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(sig)
	select {
	case <-s.done:
	case <-time.After(startTimeout):
		_ = s.cmd.Process.Kill()
		<-s.done
	}
	s.cmd = nil
}

// Restart kills the process if it runs, starts it again with the same port and folder, and
// waits until it answers.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Kill()
	var err error
	for range 20 {
		if err = s.start(); err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.tb.Fatal(err)
}

// Wipe removes the server's files. It must not be running.
func (s *Server) Wipe() {
	s.tb.Helper()
	if s.cmd != nil {
		s.tb.Fatal("the server is running")
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		s.tb.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(s.dir, e.Name())); err != nil {
			s.tb.Fatal(err)
		}
	}
}
