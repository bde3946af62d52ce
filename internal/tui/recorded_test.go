package tui

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/transcript/recorded"
	"github.com/superstep-dev/superstep/runlog"
)

var update = flag.Bool("update", false, "write the golden screens again")

// A paper is a terminal that keeps all lines: it knows line feeds, returns, going up and erasing below.
type paper struct {
	t     *testing.T
	width int
	lines []string
	row   int
}

var control = regexp.MustCompile(`^\x1b\[([\d;]*)([AJm])`)

func (p *paper) Write(b []byte) (int, error) {
	if p.lines == nil {
		p.lines = []string{""}
	}
	for s := string(b); s != ""; {
		if m := control.FindStringSubmatch(s); m != nil {
			n, _ := strconv.Atoi(m[1])
			switch m[2] {
			case "A":
				p.row = max(0, p.row-max(1, n))
			case "J":
				p.lines = append(p.lines[:p.row:p.row], "")
			}
			s = s[len(m[0]):]
			continue
		}
		switch s[0] {
		case '\r':
		case '\n':
			if p.row++; p.row == len(p.lines) {
				p.lines = append(p.lines, "")
			}
		case 0x1b:
			p.t.Fatalf("it does not know %q", s)
		default:
			i := strings.IndexAny(s, "\x1b\r\n")
			if i < 0 {
				i = len(s)
			}
			if p.lines[p.row] += s[:i]; ansi.StringWidth(p.lines[p.row]) > p.width {
				p.t.Errorf("a line of more than %d cells: %q", p.width, p.lines[p.row])
			}
			s = s[i:]
			continue
		}
		s = s[1:]
	}
	return len(b), nil
}

// replayed is what a live view shows of records, at some moments and in the end.
func replayed(t *testing.T, recs []runlog.Record, width int, pal Palette, moments ...int) string {
	p := &paper{t: t, width: width}
	var now time.Time
	screen := &Screen{err: p, Err: pal, Live: true}
	s := &Session{screen: screen, named: make(chan struct{}), now: func() time.Time { return now }}
	v := &live{out: p, in: -1, size: func() (int, int) { return width, 30 }, at: [2]int{width, 30}}
	v.teller = teller{s: s, pal: pal, say: v.tells}
	s.view = v
	s.Begin("7f3a21c0")
	var b strings.Builder
	for i, rec := range recs {
		now = rec.Time
		s.Observe(rec, nil)
		v.frame = 0
		v.draw(true)
		if slices.Contains(moments, i) {
			fmt.Fprintf(&b, "[after record %d of %d]\n%s\n", i+1, len(recs), strings.Join(p.lines, "\n"))
		}
	}
	v.last()
	v.flush()
	v.draw(false)
	fmt.Fprintln(p, s.LastLine(s.run.Status, 0, s.run.Time.Elapsed(now)))
	fmt.Fprintf(&b, "[the end]\n%s", strings.Join(p.lines, "\n"))
	return b.String()
}

// The recorded sessions look as they should at every width.
func TestRecordedScreens(t *testing.T) {
	t.Parallel()
	for _, name := range recorded.Names() {
		recs := recorded.Load(name)
		n := len(recs)
		moments := []int{n / 3, n / 2, n * 4 / 5}
		for i, rec := range recs {
			if rec.Kind == runlog.KindAsked {
				moments = append(moments, i)
			}
			if rec.Seq != 0 && bytes.Contains(rec.Data, []byte(`"kind":"timer"`)) {
				moments = append(moments, i)
			}
		}
		for _, width := range []int{40, 60, 80, 120} {
			got := replayed(t, recs, width, "", moments...)
			path := filepath.Join("testdata", "screens", fmt.Sprintf("%s-%d.txt", name, width))
			if *update {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s at %d columns:\n%s\nwant (see -update)\n%s", name, width, got, want)
			}
		}
	}
}

// No width breaks a line, and rows neither change their order nor are more than five.
func TestRowsStay(t *testing.T) {
	t.Parallel()
	for _, name := range recorded.Names() {
		recs := recorded.Load(name)
		for width := 10; width < 140; width += 13 {
			replayed(t, recs, width, Usual)
		}
		s := &Session{}
		v := &live{teller: teller{s: s}}
		for _, rec := range recs {
			s.run.Apply(rec)
			s.now = func() time.Time { return rec.Time }
			rows, before := 0, ""
			for _, line := range v.block(100, 30) {
				if m := regexp.MustCompile(`^ [^ ] (\d+)/read`).FindStringSubmatch(line); m != nil {
					if rows++; m[1] < before {
						t.Errorf("%s: %s is below %s", name, m[1], before)
					}
					before = m[1]
				}
			}
			if rows > 5 {
				t.Errorf("%s: %d rows", name, rows)
			}
		}
	}
}

// Rows say what their tasks wait for, with those that matter most where there are more than five, as declared.
func TestRowStates(t *testing.T) {
	t.Parallel()
	x := newPlainRun(t)
	v := &live{teller: teller{s: x.s}}
	sends := ""
	for i := range 9 {
		sends += fmt.Sprintf(`,{"to":"work","key":"k%d"}`, 9-i)
	}
	x.add(runlog.KindTaskDone, "plan", `{"node":"plan","step":0,"sends":[`+sends[1:]+`]}`)
	x.add(runlog.KindStepCommitted, "", `{"step":0}`)
	for i := range 8 {
		key := fmt.Sprintf("k%d", i+1)
		name := "task.started"
		if key == "k2" {
			name = "task.queued"
		}
		x.live("work["+key+"]", name, `{"node":"work","key":"`+key+`","step":1}`)
	}
	x.add(runlog.KindSettled, "work[k8]", `{"key":"agent","kind":"agent","name":"reader","input":{"prompt":"\n\u001b[31mRead it\nall"}}`)
	for _, key := range []string{"k7", "k6", "k5"} {
		x.add(runlog.KindTaskDone, "work["+key+"]", `{"node":"work","key":"`+key+`","step":1}`)
	}
	x.add(runlog.KindTaskFailed, "work[k1]", `{"node":"work","key":"k1","step":1,"attempt":1,"error":"boom","final":true}`)
	x.add(runlog.KindAsked, "work[k4]", `{"key":"q","question":"Which\u0007 one?"}`)
	x.add(runlog.KindTaskFailed, "work[k3]", `{"node":"work","key":"k3","step":1,"attempt":1,"error":"boom","next_ms":9000}`)
	x.at = x.at.Add(time.Second)
	want := `── Step: work (running) ── 4/9 items · 1 needs you ────────────────────────────
 ⣷ work/k8  reader  Read it  8.0s
 ? work/k4  10s  NEEDS YOU: Which one?
 ! work/k3  13s  try 2 in 8s
 ◌ work/k2  queued
 ✗ work/k1  12s  failed
   +3 more
 ⣷ 18s · ↓ 0 tokens · 1 agent`
	if got := strings.Join(v.block(80, 30), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What was drawn of a long run is forgotten with the parts that the fold drops, and only that.
func TestDrawnIsBounded(t *testing.T) {
	t.Parallel()
	s := showRun(t, "")
	for _, rec := range recorded.Load(recorded.Names()[0]) {
		s.give(&rec)
	}
	before := s.picture(100, 30)
	own := len(s.view.cache)
	for i := range mostBlocks {
		s.view.cache[blockKey{task: &transcript.Task{}, part: strconv.Itoa(i), kind: blockPart}] = drawnBlock{lines: []string{"dropped"}}
	}
	ended := &transcript.Task{State: transcript.Done}
	s.view.said[ended] = &liveText{}
	s.view.expanded = true
	s.picture(100, 30)
	s.view.expanded = false
	if now := s.picture(100, 30); now != before {
		t.Errorf("it looks otherwise:\n%s", now)
	}
	if n := len(s.view.cache); n < own || n > 2*own || own == 0 || s.view.said[ended] != nil {
		t.Errorf("keeps %d blocks of %d", n, own)
	}
}
