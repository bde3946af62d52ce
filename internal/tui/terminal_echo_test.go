//go:build unix

package tui

import (
	"bytes"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/superstep-dev/superstep/internal/faults"
)

// A glass keeps what a terminal is sent.
type glass struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (g *glass) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.all.Write(p)
}

func (g *glass) has(s string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return bytes.Contains(g.all.Bytes(), []byte(s))
}

func (g *glass) forget() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.all.Len()
	g.all.Reset()
	return n
}

// Convention 28: what is typed while five agents say 200 words a second each is on the screen at once: the goal is 50 ms for 99 of 100 letters, and ten times that fails.
// What is sent to the terminal meanwhile stays small.
func TestTerminalEcho(t *testing.T) {
	s, word := busyRun(t, 100)
	in, keys := io.Pipe()
	out := &glass{}
	p := tea.NewProgram(s.Terminal, tea.WithInput(in), tea.WithOutput(out), tea.WithFPS(30), tea.WithWindowSize(100, 30),
		tea.WithEnvironment([]string{"TERM=xterm-256color"}), tea.WithoutSignals())
	ended := make(chan error, 1)
	go func() { _, err := p.Run(); ended <- err }()
	stop := make(chan struct{})
	var talk sync.WaitGroup
	talk.Go(func() {
		tick := time.NewTicker(33 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				s.mu.Lock()
				for k := range 33 {
					word(k)
				}
				s.mu.Unlock()
				p.Send(frameMsg{})
			}
		}
	})
	time.Sleep(300 * time.Millisecond)
	var took []time.Duration
	sent, begin := 0, time.Now()
	for i := range 60 {
		letter := string(rune('А' + i)) // each once
		sent += out.forget()
		at := time.Now()
		if _, err := io.WriteString(keys, letter); err != nil {
			t.Fatal(err)
		}
		for !out.has(letter) && time.Since(at) < 5*time.Second {
			time.Sleep(time.Millisecond)
		}
		took = append(took, time.Since(at))
		time.Sleep(20 * time.Millisecond)
	}
	rate := float64(sent) / time.Since(begin).Seconds()
	close(stop)
	talk.Wait()
	p.Quit()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	slices.Sort(took)
	t.Logf("letters are seen after %s, 99 of 100 after %s; %.0f bytes a second", took[len(took)/2], took[len(took)-1], rate)
	if slow := took[len(took)-1]; slow > faults.Bound(500*time.Millisecond) {
		t.Errorf("a letter took %s", slow)
	}
	if rate > 100<<10 {
		t.Errorf("%.0f bytes a second for a screen on which only some rows change", rate)
	}
}
