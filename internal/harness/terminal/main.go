//go:build linux

// Command terminal measures full-screen terminals from outside, each in a pseudo-terminal of 100 by 30: the time to the first frame, the
// processor time and the memory while a scripted model streams, and how long a typed letter takes to the screen. Another terminal is
// measured beside ours on the same model, in turns.
//
//	go run ./terminal -superstep ../../superstep -opencode PATH
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"github.com/creack/pty"
)

// A subject is a terminal to measure.
type subject struct {
	name string
	args []string
	env  []string
	dir  string
	own  string   // what its first frame has
	keys []string // that begin the answer
}

// measured is one round.
type measured struct {
	first   time.Duration
	cpu     float64 // percent of a core while streaming, of the terminal and its children
	behind  float64 // percent of a core of processes that it started apart from itself
	memory  int64   // bytes resident
	echoes  []time.Duration
	missing int
}

func main() {
	log.SetFlags(0)
	if err := compare(); err != nil {
		log.Fatal(err)
	}
}

// compare measures the terminals in turns, and prints what it found.
func compare() error {
	ours := flag.String("superstep", "", "the built command")
	theirs := flag.String("opencode", "", "an opencode to measure beside it; none if empty")
	rounds := flag.Int("rounds", 5, "of each")
	rate := flag.Int("rate", 200, "words a second")
	silent := flag.Bool("silent", false, "type nothing while the model streams")
	open := flag.String("open", "", "arguments of superstep in place of a conversation, separated by blanks")
	flag.Parse()
	s, err := speak(12**rate, *rate)
	if err != nil {
		return err
	}
	root, err := os.MkdirTemp("", "terminal-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(root) }()
	var all []*subject
	if *ours != "" {
		path, err := filepath.Abs(*ours)
		if err != nil {
			return err
		}
		x := &subject{name: "superstep", args: append([]string{path}, strings.Fields(*open)...), own: "/command", keys: []string{"tell me", "\r"}}
		x.env = []string{"OPENAI_BASE_URL=" + s.url, "OPENAI_API_KEY=none", "SUPERSTEP_MODEL=openai/words"}
		all = append(all, x)
	}
	if *theirs != "" {
		path, err := filepath.Abs(*theirs)
		if err != nil {
			return err
		}
		config := fmt.Sprintf(`{"model":"local/words","small_model":"local/words","provider":{"local":{"npm":"@ai-sdk/openai-compatible","name":"local",`+
			`"options":{"baseURL":%q,"apiKey":"none"},"models":{"words":{"name":"words"}}}}}`, s.url)
		all = append(all, &subject{name: "opencode", args: []string{path}, own: "Ask anything", keys: []string{"tell me", "\r"}, env: []string{"OPENCODE_CONFIG_CONTENT=" + config,
			"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1",
			"OPENCODE_DISABLE_SHARE=1"}})
	}
	results := map[string][]*measured{}
	for i := range *rounds {
		for _, x := range all {
			x.dir = filepath.Join(root, x.name)
			if err := os.MkdirAll(filepath.Join(x.dir, "project"), 0o700); err != nil {
				return err
			}
			m, err := x.measure(*silent)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", x.name, i+1, err)
			}
			results[x.name] = append(results[x.name], m)
			fmt.Printf("%-10s round %d: first frame %4d ms, %5.1f %% of a core (%.1f %% apart), %4d MB, echo p50 %3d p99 %3d ms, lost %d\n", x.name, i+1,
				m.first.Milliseconds(), m.cpu, m.behind, m.memory>>20, at(m.echoes, 50).Milliseconds(), at(m.echoes, 99).Milliseconds(), m.missing)
		}
	}
	for _, x := range all {
		list := results[x.name]
		median := func(of func(*measured) float64) float64 {
			var v []float64
			for _, m := range list {
				v = append(v, of(m))
			}
			slices.Sort(v)
			return v[len(v)/2]
		}
		fmt.Printf("%-10s median : first frame %4.0f ms, %5.1f %% of a core (%.1f %% apart), %4.0f MB, echo p50 %3.0f p99 %3.0f ms\n", x.name,
			median(func(m *measured) float64 { return float64(m.first.Milliseconds()) }), median(func(m *measured) float64 { return m.cpu }),
			median(func(m *measured) float64 { return m.behind }), median(func(m *measured) float64 { return float64(m.memory >> 20) }),
			median(func(m *measured) float64 { return float64(at(m.echoes, 50).Milliseconds()) }),
			median(func(m *measured) float64 { return float64(at(m.echoes, 99).Milliseconds()) }))
	}
	return nil
}

// at is a percentile.
func at(list []time.Duration, percent int) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[min(len(list)-1, len(list)*percent/100)]
}

// screen collects what a terminal shows.
type screen struct {
	mu   sync.Mutex
	all  []byte
	more chan struct{}
}

// until waits for text behind an offset, and returns when it came.
func (s *screen) until(from int, text string, most time.Duration) (time.Time, bool) {
	end := time.After(most)
	for {
		s.mu.Lock()
		found := bytes.Contains(s.all[from:], []byte(text))
		s.mu.Unlock()
		if found {
			return time.Now(), true
		}
		select {
		case <-s.more:
		case <-end:
			return time.Time{}, false
		}
	}
}

func (s *screen) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

func (x *subject) measure(silent bool) (*measured, error) {
	cmd := exec.CommandContext(context.Background(), x.args[0], x.args[1:]...)
	cmd.Dir = filepath.Join(x.dir, "project")
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TERM=xterm-256color", "LANG=C.UTF-8", "HOME=" + x.dir}, x.env...)
	begin := time.Now()
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 100})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tty.Close() }()
	s := &screen{more: make(chan struct{}, 1)}
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := tty.Read(buf)
			s.mu.Lock()
			answers(tty, buf[:n])
			s.all = append(s.all, buf[:n]...)
			s.mu.Unlock()
			select {
			case s.more <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	}()
	m := &measured{}
	came, ok := s.until(0, x.own, time.Minute)
	if !ok {
		return nil, fmt.Errorf("no first frame with %q:\n%q", x.own, s.all)
	}
	m.first = came.Sub(begin)
	time.Sleep(2 * time.Second) // what it loads afterwards is no part of what follows
	for _, k := range x.keys {
		_, _ = tty.WriteString(k)
		time.Sleep(300 * time.Millisecond)
	}
	from := s.len()
	if _, ok := s.until(from, "word", time.Minute); !ok {
		return nil, fmt.Errorf("no answer:\n%q", s.all[from:])
	}
	time.Sleep(time.Second)
	before, start := usage(cmd.Process.Pid), time.Now()
	apart := others(x.args[0], cmd.Process.Pid)
	letters := 100
	if silent {
		letters = 0
		time.Sleep(5 * time.Second)
	}
	for r := range letters { // each letter is typed once, so that it is new when it is seen
		letter := string(rune('А' + r%64))
		if r >= 64 {
			letter = string(rune('Ա' + r - 64))
		}
		if !unicode.IsLetter([]rune(letter)[0]) {
			continue
		}
		from, sent := s.len(), time.Now()
		_, _ = tty.WriteString(letter)
		if seen, ok := s.until(from, letter, 2*time.Second); ok {
			m.echoes = append(m.echoes, seen.Sub(sent))
		} else {
			m.missing++
		}
		time.Sleep(50*time.Millisecond - time.Since(sent))
	}
	took := time.Since(start).Seconds()
	after := usage(cmd.Process.Pid)
	m.cpu, m.memory = 100*(after.cpu-before.cpu).Seconds()/took, after.memory
	m.behind = 100 * (others(x.args[0], cmd.Process.Pid) - apart).Seconds() / took
	return m, nil
}

// answers replies to what programs ask a terminal, as an xterm does, so that they do not wait for it.
func answers(tty *os.File, out []byte) {
	for ask, answer := range map[string]string{"\x1b[c": "\x1b[?62;22c", "\x1b[6n": "\x1b[1;1R", "\x1b]11;?\x07": "\x1b]11;rgb:0000/0000/0000\x07",
		"\x1b]11;?\x1b\\": "\x1b]11;rgb:0000/0000/0000\x1b\\"} {
		if bytes.Contains(out, []byte(ask)) {
			_, _ = tty.WriteString(answer)
		}
	}
}

// used is what processes have used so far.
type used struct {
	cpu    time.Duration
	memory int64
}

// usage sums up a process and those below it.
func usage(pid int) used {
	children := map[int][]int{}
	own := map[int]used{}
	entries, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, e := range entries {
		id, parent, u, ok := stat(e)
		if ok {
			children[parent], own[id] = append(children[parent], id), u
		}
	}
	var sum func(int) used
	sum = func(id int) used {
		u := own[id]
		for _, c := range children[id] {
			v := sum(c)
			u.cpu, u.memory = u.cpu+v.cpu, u.memory+v.memory
		}
		return u
	}
	return sum(pid)
}

// others is the processor time of other processes of the same program, which it has started apart from itself.
func others(program string, pid int) (sum time.Duration) {
	entries, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, e := range entries {
		exe, err := os.Readlink(e)
		id, _ := strconv.Atoi(filepath.Base(filepath.Dir(e)))
		if err == nil && exe == program && id != pid {
			if _, _, u, ok := stat(filepath.Join(filepath.Dir(e), "stat")); ok {
				sum += u.cpu
			}
		}
	}
	return sum
}

// stat reads a process's file of that name.
func stat(file string) (pid, parent int, u used, ok bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, used{}, false
	}
	s := string(b)
	pid, _ = strconv.Atoi(s[:max(0, strings.IndexByte(s, ' '))])
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(f) < 22 {
		return 0, 0, used{}, false
	}
	number := func(i int) int64 { n, _ := strconv.ParseInt(f[i], 10, 64); return n }
	return pid, int(number(1)), used{onCPU(filepath.Dir(file)), number(21) * int64(os.Getpagesize())}, true
}

// onCPU is how long the threads of a process have run, in nanoseconds: what stat says counts whole ticks, which is too much for a program that wakes
// with the clock.
func onCPU(process string) (sum time.Duration) {
	files, _ := filepath.Glob(filepath.Join(process, "task", "[0-9]*", "schedstat"))
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil {
			first, _, _ := strings.Cut(string(b), " ")
			n, _ := strconv.ParseInt(first, 10, 64)
			sum += time.Duration(n)
		}
	}
	return sum
}
