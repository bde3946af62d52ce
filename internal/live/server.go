// Package live sends a run's records, including live-only ones, from the executing process to other processes of the same user on the same machine, over
// one Unix socket per run.
//
// A client writes one line and then reads records as JSON Lines, in the order in which Journal.Follow yields them. A live-only record has seq 0.
//
//	{"v":1,"run":"7f3a","from":413}
//	{"seq":413,"epoch":1,"time":"2026-11-23T19:05:46.1Z","kind":"task.done","path":"write","data":{…}}
//
// With "look":true the process instead looks for requests of other processes at once, and closes the connection.
package live

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

const (
	version    = 1
	maxPath    = 100              // bytes of a socket's path, which every system takes
	maxHello   = 4096             // bytes of what a client may write
	maxClients = 64               // of one run
	helloTime  = 5 * time.Second  // for a client to say what it wants
	writeTime  = 10 * time.Second // for a client to take one record
	drainTime  = 100 * time.Millisecond
)

// hello is the line that a client writes.
type hello struct {
	V    int    `json:"v"`
	Run  string `json:"run"`
	From uint64 `json:"from,omitempty"`
	Look bool   `json:"look,omitempty"`
}

// record is a line that a client reads.
type record struct {
	Seq   uint64          `json:"seq"`
	Epoch uint64          `json:"epoch,omitempty"`
	Time  time.Time       `json:"time"`
	Kind  runlog.Kind     `json:"kind"`
	Path  string          `json:"path,omitempty"`
	Data  json.RawMessage `json:"data,omitempty"`

	Attachment []byte `json:"-"` // whoever computes with it reads the store
}

// A Source is a run that executes here. Its methods are called from several goroutines.
type Source interface {
	Follow(ctx context.Context, from uint64) iter.Seq2[runlog.Record, error]
	Look(ctx context.Context) // for requests of other processes
}

// A Server shows one run to other processes.
type Server struct {
	run    string
	source Source
	ln     *net.UnixListener
	path   string
	file   os.FileInfo // of the socket

	ctx     context.Context
	cancel  context.CancelFunc
	slots   chan struct{}
	clients sync.WaitGroup
}

// Listen creates the socket of a run at the first path where this is possible, and replaces an existing socket: the caller must hold the run. It creates
// the directory if needed; only this user has access to it. The caller must call Serve and Close.
func Listen(paths []string, run string, source Source) (*Server, error) {
	err := errors.New("no path for the socket of run " + run)
	for _, path := range paths {
		s := &Server{run: run, source: source, path: path, slots: make(chan struct{}, maxClients)}
		lerr := s.bind()
		if lerr == nil {
			s.ctx, s.cancel = context.WithCancel(context.Background())
			return s, nil
		}
		err = errors.Join(err, lerr)
	}
	return nil, err
}

func (s *Server) bind() (err error) {
	if len(s.path) > maxPath {
		return fmt.Errorf("the socket path %s is longer than %d bytes", s.path, maxPath)
	}
	dir := filepath.Dir(s.path)
	if err := private(dir); err != nil {
		return err
	}
	// The socket listens before it is renamed to its final path, so that no client finds one that does not listen yet.
	temp := filepath.Join(dir, "."+strings.ToLower(rand.Text()[:8]))
	if len(temp) > len(s.path) {
		return fmt.Errorf("the socket name %s is too short", filepath.Base(s.path))
	}
	if s.ln, err = net.ListenUnix("unix", &net.UnixAddr{Name: temp, Net: "unix"}); err != nil {
		return err
	}
	s.ln.SetUnlinkOnClose(false)
	if err = os.Chmod(temp, 0o600); err == nil {
		if s.file, err = os.Lstat(temp); err == nil {
			err = os.Rename(temp, s.path)
		}
	}
	if err != nil {
		return errors.Join(err, s.ln.Close(), os.Remove(temp))
	}
	return nil
}

// private creates a directory if needed, and makes sure that only this user has access to it.
func private(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir() || !owned(info):
		return fmt.Errorf("%s is no directory of this user; remove it", dir)
	case info.Mode().Perm() != 0o700:
		return os.Chmod(dir, 0o700) //nolint:gosec // it is a directory
	}
	return nil
}

// Serve serves clients until the server is closed and each client has read the remaining records. It must be called once.
func (s *Server) Serve() {
	for {
		conn, err := s.ln.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			break
		}
		if err != nil { // such as too many open files: others need them more
			select {
			case <-time.After(drainTime):
			case <-s.ctx.Done():
			}
			continue
		}
		select {
		case s.slots <- struct{}{}:
			s.clients.Go(func() {
				defer func() { <-s.slots }()
				s.serve(conn)
			})
		default:
			_ = conn.Close()
		}
	}
	s.clients.Wait()
	s.cancel()
}

// Close removes the socket, unless another process has replaced it, and does not wait. Close the followed journal first: clients then have a moment to
// read the remaining records.
func (s *Server) Close() {
	_ = s.ln.Close()
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(s.file, now) {
		_ = os.Remove(s.path)
	}
	late := time.AfterFunc(drainTime, s.cancel)
	context.AfterFunc(s.ctx, func() { late.Stop() })
}

// serve answers one client. It closes the connection if the request is invalid, or if the client reads nothing for a while.
func (s *Server) serve(conn *net.UnixConn) {
	ctx, cancel := context.WithCancel(s.ctx)
	closed := make(chan struct{})
	context.AfterFunc(ctx, func() { _ = conn.Close(); close(closed) })
	defer func() { cancel(); <-closed }()
	if !mine(conn) {
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(helloTime))
	in := bufio.NewReaderSize(conn, maxHello)
	text, err := in.ReadSlice('\n')
	var h hello
	if err != nil || json.Unmarshal(text, &h) != nil || h.V != version || h.Run != s.run {
		return
	}
	if h.Look {
		s.source.Look(ctx)
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	s.clients.Go(func() {
		_, _ = in.ReadByte() // it has left, or says more than it may
		cancel()
	})
	out := json.NewEncoder(conn) // a write for each record
	out.SetEscapeHTML(false)
	for r, err := range s.source.Follow(ctx, h.From) {
		_ = conn.SetWriteDeadline(time.Now().Add(writeTime))
		if err != nil || out.Encode(record(r)) != nil {
			return
		}
	}
}
