package live_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/live"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redact"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("TEST_READER"); path != "" {
		os.Exit(readerProcess(path))
	}
	goleak.VerifyTestMain(m)
}

// source is a journal as a run is shown.
type source struct {
	*journal.Journal
	looks *atomic.Int32
}

func (s source) Look(context.Context) { s.looks.Add(1) }

// A stage is a run that executes here, with its socket.
type stage struct {
	t      testing.TB
	store  runlog.Store
	j      *journal.Journal
	paths  []string
	server *live.Server
	served chan struct{}
	looks  atomic.Int32
}

func newStage(t testing.TB, store runlog.Store) *stage {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there are no sockets")
	}
	dir, err := os.MkdirTemp("", "live") //nolint:usetesting // t.TempDir may be too long a path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &stage{t: t, store: store, paths: []string{filepath.Join(dir, "live", "00000000-run.sock")}}
	s.open(&journal.Options{Create: &runlog.NewRun{Workflow: "w"}})
	s.write("begin")
	s.listen()
	return s
}

func (s *stage) open(opt *journal.Options) {
	s.t.Helper()
	var err error
	if s.j, err = journal.Open(s.t.Context(), s.store, "run", opt); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) listen() {
	s.t.Helper()
	var err error
	if s.server, err = live.Listen(s.paths, "run", source{s.j, &s.looks}); err != nil {
		s.t.Fatal(err)
	}
	served := make(chan struct{})
	s.served = served
	server := s.server
	go func() { server.Serve(); close(served) }()
	s.t.Cleanup(func() { server.Close(); <-served })
}

func (s *stage) write(name string) {
	s.t.Helper()
	if err := s.j.Write(context.Background(), "", runlog.KindEvent, "", runlog.Event{Name: name}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) say(text string) {
	s.j.Live(runlog.KindEvent, "a", runlog.Event{Name: "text", Data: json.RawMessage(fmt.Sprintf(`{"text":%q}`, text))})
}

// finish ends the run as an engine does.
func (s *stage) finish() {
	s.t.Helper()
	if err := errors.Join(s.j.Finish(context.Background(), nil), s.j.Close(context.Background())); err != nil {
		s.t.Fatal(err)
	}
	s.server.Close()
	<-s.served
}

// dial connects as any program can, and says what is given.
func (s *stage) dial(text string) *net.UnixConn {
	s.t.Helper()
	c, err := net.Dial("unix", s.paths[0])
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	_, _ = c.Write([]byte(text))
	return c.(*net.UnixConn)
}

const hello = `{"v":1,"run":"run","from":0}` + "\n"

// names is what a reader has had: the names of stored events, and of live-only ones "~" and their texts.
type names struct {
	mu   sync.Mutex
	list []string
	recs []runlog.Record
	err  error
	done chan struct{}
}

func (n *names) add(r *runlog.Record) {
	var e runlog.Event
	_ = json.Unmarshal(r.Data, &e)
	name := e.Name
	var d struct{ Text string }
	if json.Unmarshal(e.Data, &d) == nil && d.Text != "" {
		name = d.Text
	}
	if r.Kind != runlog.KindEvent {
		name = string(r.Kind)
	}
	if r.Seq == 0 {
		name = "~" + name
	}
	n.mu.Lock()
	n.list, n.recs = append(n.list, name), append(n.recs, *r)
	n.mu.Unlock()
}

func (n *names) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.list)
}

func collect(records iter.Seq2[runlog.Record, error]) *names {
	n := &names{done: make(chan struct{})}
	go func() {
		defer close(n.done)
		for r, err := range records {
			if err != nil {
				n.err = err
				return
			}
			n.add(&r)
		}
	}()
	return n
}

func (n *names) until(t testing.TB, want string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !slices.Contains(n.all(), want); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s never came: %q", want, n.all())
		}
	}
}

func (n *names) end(t testing.TB) []string {
	t.Helper()
	select {
	case <-n.done:
	case <-time.After(time.Minute):
		t.Fatalf("following never ends: %q", n.all())
	}
	if n.err != nil {
		t.Fatal(n.err)
	}
	return n.list
}

// Another reader sees exactly what one in the process sees.
func TestFollow(t *testing.T) {
	s := newStage(t, runlog.NewMemory(nil))
	far, near := collect(live.Follow(t.Context(), s.store, s.paths, "run", 0)), collect(s.j.Follow(t.Context(), 0))
	far.until(t, "begin")
	near.until(t, "begin")
	for i := range 50 {
		s.say(fmt.Sprint("<word & ", i, ">\n\u2028"))
		s.write(fmt.Sprint("record ", i))
	}
	s.finish()
	if diff := cmp.Diff(near.end(t), far.end(t)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(near.recs, far.recs); diff != "" {
		t.Error(diff)
	}
	if len(near.list) != 102 { // and its end
		t.Errorf("%d records", len(near.list))
	}
	if _, err := os.Lstat(s.paths[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	if got := collect(live.Follow(t.Context(), s.store, s.paths, "run", 51)).end(t); !slices.Equal(got, []string{"record 49", "run.finished"}) {
		t.Errorf("%q of a run that has ended", got)
	}
}

func TestFollowEndsWithItsReader(t *testing.T) {
	s := newStage(t, runlog.NewMemory(nil))
	ctx, cancel := context.WithCancelCause(t.Context())
	n := collect(live.Follow(ctx, s.store, s.paths, "run", 0))
	n.until(t, "begin")
	why := errors.New("enough")
	cancel(why)
	<-n.done
	if !errors.Is(n.err, why) {
		t.Errorf("error %v", n.err)
	}
	for range live.Follow(t.Context(), s.store, s.paths, "run", 0) {
		break
	}
	s.finish() // and nobody is left, which goleak sees
}

// The directory and the socket are this user's alone.
func TestModes(t *testing.T) {
	s := newStage(t, runlog.NewMemory(nil))
	for path, want := range map[string]os.FileMode{s.paths[0]: 0o600 | os.ModeSocket, filepath.Dir(s.paths[0]): 0o700 | os.ModeDir} {
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
	s.server.Close()
	dir := filepath.Dir(s.paths[0])
	if err := os.Chmod(dir, 0o777); err != nil { //nolint:gosec // what is to be mended
		t.Fatal(err)
	}
	s.listen()
	if info, err := os.Lstat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory stays open to others: %v, %v", info.Mode(), err)
	}
	link := filepath.Join(filepath.Dir(dir), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(link, "00000000-run.sock"), filepath.Join(dir, strings.Repeat("x", 101))} {
		if _, err := live.Listen([]string{path}, "run", nil); err == nil {
			t.Errorf("%s has a socket", path)
		}
	}
}

// What a killed process left is replaced, and the one that was replaced does not remove what is no longer its own.
func TestStaleSocket(t *testing.T) {
	s := newStage(t, runlog.NewMemory(nil))
	if err := os.Remove(s.paths[0]); err != nil {
		t.Fatal(err)
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.paths[0], Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	_ = ln.Close() // as if killed
	n := collect(live.Follow(t.Context(), s.store, s.paths, "run", 0))
	n.until(t, "begin")
	n.until(t, "~stored.only") // it is told
	s.server.Close()           // leaves the other's
	if _, err := os.Lstat(s.paths[0]); err != nil {
		t.Error(err)
	}
	s.listen()
	for end := time.Now().Add(time.Minute); !slices.Contains(n.all(), "~word"); time.Sleep(10 * time.Millisecond) {
		if s.say("word"); time.Now().After(end) {
			t.Fatal("the reader never finds the new socket")
		}
	}
	s.finish()
	var stored []string
	for _, name := range n.end(t) {
		if name[0] != '~' {
			stored = append(stored, name)
		}
	}
	if !slices.Equal(stored, []string{"begin", "run.finished"}) {
		t.Errorf("stored records %q", stored)
	}
}

// The reader is told once that only stored records come, and not of a run that does not execute.
func TestStoredOnly(t *testing.T) {
	s := newStage(t, runlog.NewMemory(nil))
	s.server.Close()
	<-s.served
	n := collect(live.Follow(t.Context(), s.store, s.paths, "run", 0))
	n.until(t, "~stored.only")
	time.Sleep(1200 * time.Millisecond) // two more attempts
	s.write("more")
	n.until(t, "more")
	s.finish()
	if got := n.end(t); !slices.Equal(got, []string{"begin", "~stored.only", "more", "run.finished"}) {
		t.Errorf("%q", got)
	}
	for i := range n.recs {
		if r := &n.recs[i]; live.StoredOnly(r) != (n.list[i] == "~stored.only") {
			t.Errorf("%+v", r)
		}
	}
	if got := collect(live.Follow(t.Context(), s.store, s.paths, "run", 0)).end(t); len(got) != 3 {
		t.Errorf("%q of a run that has ended", got)
	}
}

// liar is a process that answers in place of the run's.
func liar(t *testing.T, path string, say func(net.Conn)) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			say(c)
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-done })
}

// Whatever the other end sends, no stored record is lost, doubled or made up.
func TestReaderDistrusts(t *testing.T) {
	line := func(seq int, name string) string {
		return fmt.Sprintf(`{"seq":%d,"time":"2026-11-23T00:00:00Z","kind":"event","data":{"name":%q}}`, seq, name) + "\n"
	}
	for name, text := range map[string]string{
		"rubbish":   "\x00\xff not JSON\n",
		"cut":       line(1, "begin") + line(2, "more")[:30],
		"gap":       line(1, "begin") + line(3, "run.finished"),
		"doubled":   line(1, "begin") + line(1, "begin"),
		"nothing":   "",
		"no kind":   "{}\n",
		"long line": strings.Repeat("x", 70<<20),
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, runlog.NewMemory(nil))
			s.write("more")
			liar(t, s.paths[0], func(c net.Conn) { _, _ = c.Write([]byte(text)); _ = c.Close() })
			n := collect(live.Follow(t.Context(), s.store, s.paths, "run", 0))
			n.until(t, "more")
			s.finish()
			if got := n.end(t); !slices.Equal(got, []string{"begin", "more", "run.finished"}) {
				t.Errorf("%q", got)
			}
		})
	}
}

// A process that is stopped, and that another has taken the run from, says nothing and keeps the connection.
func TestReaderLeavesSilence(t *testing.T) {
	s := newStage(t, runlog.NewMemory(nil))
	liar(t, s.paths[0], func(c net.Conn) { t.Cleanup(func() { _ = c.Close() }) })
	n := collect(live.Follow(t.Context(), s.store, s.paths, "run", 0))
	n.until(t, "begin")
	s.write("more")
	n.until(t, "more")
	s.finish()
	if got := n.end(t); !slices.Equal(got, []string{"begin", "more", "run.finished"}) {
		t.Errorf("%q", got)
	}
}

// Rubbish on the input closes the connection, and costs the run nothing.
func TestRubbish(t *testing.T) {
	s := newStage(t, runlog.NewMemory(nil))
	n := collect(live.Follow(t.Context(), s.store, s.paths, "run", 0))
	n.until(t, "begin")
	for name, text := range map[string]string{
		"no JSON":         "GET / HTTP/1.1\r\n\r\n",
		"long":            strings.Repeat("x", 10_000),
		"long and ended":  strings.Repeat(" ", 10_000) + hello,
		"other version":   `{"v":2,"run":"run"}` + "\n",
		"other run":       `{"v":1,"run":"other"}` + "\n",
		"wrong type":      `{"v":1,"run":"run","from":"first"}` + "\n",
		"negative":        `{"v":1,"run":"run","from":-1}` + "\n",
		"nothing":         "\n",
		"array":           "[1,2,3]\n",
		"bytes":           "\x00\xff\x00\n",
		"deep":            strings.Repeat("[", 4000) + "\n",
		"look, other run": `{"v":1,"run":"other","look":true}` + "\n",
	} {
		c := s.dial(text)
		if got, err := bufio.NewReader(c).ReadString('\n'); err == nil || got != "" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	c := s.dial(hello + "more than it may\n")
	in := bufio.NewScanner(c)
	for in.Scan() { // what there was by then, and the end
	}
	if err := in.Err(); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a client that says too much stays")
	}
	s.say("word")
	n.until(t, "~word")
	s.finish()
	if got := n.end(t); !slices.Equal(got, []string{"begin", "~word", "run.finished"}) || s.looks.Load() != 0 {
		t.Errorf("%q, %d looks", got, s.looks.Load())
	}
}

func TestLook(t *testing.T) {
	s := newStage(t, runlog.NewMemory(nil))
	live.Look(t.Context(), s.paths, "run")
	live.Look(t.Context(), s.paths, "other")
	live.Look(t.Context(), nil, "run")
	for end := time.Now().Add(time.Minute); s.looks.Load() != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d looks", s.looks.Load())
		}
	}
	s.finish()
}

// So many clients at once and no more; the others read the store, and come in when there is room.
func TestClients(t *testing.T) {
	s := newStage(t, runlog.NewMemory(nil))
	var conns []net.Conn
	for range 64 {
		c := s.dial(hello)
		if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	n := collect(live.Follow(t.Context(), s.store, s.paths, "run", 0))
	n.until(t, "begin")
	s.say("unheard")
	_ = conns[0].Close()
	for end := time.Now().Add(time.Minute); !slices.Contains(n.all(), "~word"); time.Sleep(10 * time.Millisecond) {
		if s.say("word"); time.Now().After(end) {
			t.Fatal("no room for another")
		}
	}
	if slices.Contains(n.all(), "~unheard") {
		t.Error("there were 65 clients")
	}
	s.finish()
	n.end(t)
}

// Nothing leaves the process that is not redacted: what is said live, and what is stored.
func TestRedacted(t *testing.T) {
	const secret = "hunter2hunter2"
	s := newStage(t, redact.Store(runlog.NewMemory(nil), redact.New(redact.Secret{Name: "PW", Value: secret})))
	c := s.dial(hello)
	in := bufio.NewScanner(c)
	in.Scan() // it follows
	s.say("the password is " + secret)
	s.write("the password is " + secret)
	scope := s.j.Scope("a")
	scope.Live("text", map[string]string{"text": secret})
	s.finish()
	lines := 0
	for in.Scan() {
		lines++
		if strings.Contains(in.Text(), secret) {
			t.Errorf("the secret is told: %s", in.Text())
		}
		if lines < 4 && !strings.Contains(in.Text(), "PW") {
			t.Errorf("nothing is redacted: %s", in.Text())
		}
	}
	if lines != 4 {
		t.Errorf("%d lines", lines)
	}
}

// A client that reads nothing costs a run of 24 agents nothing: no call of theirs waits, nothing stored is lost to anybody, and
// the run ends at once.
func TestStalledReader(t *testing.T) {
	const agents, each, rate = 24, 400, 200
	s := newStage(t, runlog.NewMemory(nil))
	n := collect(live.Follow(t.Context(), s.store, s.paths, "run", 0))
	n.until(t, "begin")
	s.dial(hello) // and never reads
	gate := make(chan struct{})
	var late names
	slow := make(chan struct{})
	go func() { // another reads one record, and the next one much later
		defer close(slow)
		for r, err := range live.Follow(context.WithoutCancel(t.Context()), s.store, s.paths, "run", 0) {
			if err != nil {
				late.err = err
				return
			}
			late.add(&r)
			<-gate
		}
	}()
	late.until(t, "begin")
	var worst atomic.Int64
	var wg sync.WaitGroup
	text := strings.Repeat("x", 200) // so that no buffer hides it
	for a := range agents {
		wg.Go(func() {
			tick := time.NewTicker(time.Second / rate)
			defer tick.Stop()
			for i := range each {
				<-tick.C
				start := time.Now()
				if s.say(text); i%100 == 99 {
					s.write(fmt.Sprint("record ", a, " ", i))
				}
				took := int64(time.Since(start))
				for old := worst.Load(); took > old && !worst.CompareAndSwap(old, took); old = worst.Load() {
				}
			}
		})
	}
	wg.Wait()
	start := time.Now()
	s.finish()
	if took := time.Since(start); took > faults.Bound(5*time.Second) {
		t.Errorf("the end takes %v", took)
	}
	if worst := time.Duration(worst.Load()); worst > faults.Bound(time.Second) { // a machine may be busy; a write to a full socket takes ten
		t.Errorf("a call waited %v", worst)
	}
	close(gate)
	select {
	case <-slow:
	case <-time.After(time.Minute):
		t.Fatal("the slow reader never ends")
	}
	for who, got := range map[string][]string{"healthy": n.end(t), "slow": late.all()} {
		stored := slices.DeleteFunc(slices.Clone(got), func(s string) bool { return s[0] == '~' })
		if len(stored) != 1+agents*each/100+1 || len(slices.Compact(slices.Sorted(slices.Values(stored)))) != len(stored) {
			t.Errorf("the %s reader has %d stored records", who, len(stored))
		}
		if words := len(got) - len(stored); who == "healthy" && words < agents*each*9/10 {
			t.Errorf("the healthy reader has %d of %d words", words, agents*each)
		}
	}
	if late.err != nil {
		t.Error(late.err)
	}
	t.Logf("the longest call: %v", time.Duration(worst.Load()))
}
