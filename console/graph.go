package console

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"iter"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/draw"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
)

func mapKeys[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }

// svgShape is a graph that can be drawn.
type svgShape struct{ graph.Shape }

// shapeOf returns the graph that a run has, which is the one that it began with.
func (s *server) shapeOf(id string) (*svgShape, error) {
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
	defer cancel()
	flow, err := s.engine.Inside(ctx, id, "")
	if err != nil {
		return nil, err
	}
	if flow == nil {
		return nil, errors.New("this workflow has no graph")
	}
	return &svgShape{flow.Shape()}, nil
}

// draw returns the picture, without its styles, which are those of the console.
func (g *svgShape) draw(states map[string]draw.NodeStatus, selected string) template.HTML {
	b := draw.SVG(g.Shape, &draw.Options{Status: states})
	head, _, tail := styled(b)
	b = slices.Concat(head, tail)
	if selected != "" {
		for _, path := range []string{bare(selected), transcript.Top(selected)} {
			mark := fmt.Appendf(nil, ` data-path="%s"`, template.HTMLEscapeString(path))
			if bytes.Contains(b, mark) {
				b = bytes.Replace(b, mark, append([]byte(` aria-current="true"`), mark...), 1)
				break
			}
		}
	}
	return template.HTML(b) //nolint:gosec // names are escaped by package draw
}

// graphHandler answers GET /runs/{id}/graph.svg with the graph of a run as a file, as of a record or now.
func (s *server) graphHandler(w http.ResponseWriter, r *http.Request) error {
	p, err := s.runOf(r)
	if err != nil {
		return err
	}
	shape, err := p.shape()
	if err != nil {
		return refuse(http.StatusNotFound, "No graph: %v.", err)
	}
	h, err := s.hub(r.Context(), p.id)
	if err != nil {
		return err
	}
	h.mu.Lock()
	at, states := h.run.Seq, h.progress.Status()
	h.mu.Unlock()
	if p.at > 0 && p.at != at {
		m, _, err := s.past(r.Context(), p.id, p.at)
		if err != nil {
			return err
		}
		m.mu.Lock()
		states = m.progress.Status()
		m.mu.Unlock()
	}
	w.Header().Set("Content-Disposition", `attachment; filename="`+url.PathEscape(p.id)+`.svg"`)
	s.write(w, r, http.StatusOK, "image/svg+xml", draw.SVG(shape.Shape, &draw.Options{Status: states}))
	return nil
}

// styled returns a picture before, in and after its styles.
func styled(svg []byte) (head, style, tail []byte) {
	head, rest, _ := bytes.Cut(svg, []byte("<style>"))
	style, tail, _ = bytes.Cut(rest, []byte("</style>\n"))
	return head, style, tail
}

// graphStyle returns the styles of pictures, which are the same for all.
func graphStyle() []byte {
	_, style, _ := styled(draw.SVG(graph.Shape{}, nil))
	return style
}

// timeline draws when tasks ran: a row each, the newest of many.
func (p *runPage) timeline() list {
	return list{"timeline", []piece{{"run-timeline", 0, func() string { return p.s.html("run-timeline", p.bars()) }}}}
}

const mostBars = 120

// A bar is a task on the timeline, in percent of its width.
type bar struct {
	Label, Visit     string
	State, Link, Tip string
	Left, Width      string
	Selected         bool
}

func (p *runPage) bars() map[string]any {
	r := p.r
	var tasks []*transcript.Task
	for _, t := range p.sorted() {
		if t.Depth <= 1 {
			tasks = append(tasks, t)
		}
	}
	if len(tasks) == 0 {
		return nil
	}
	more := max(0, len(tasks)-mostBars)
	tasks = tasks[more:]
	begin, end := tasks[0].Began, r.Started
	for _, t := range tasks {
		if t.Began.Before(begin) {
			begin = t.Began
		}
		end = later(end, t.Left)
	}
	running := len(r.Active()) > 0 && p.at == 0 && r.Status == "running"
	if running {
		end = later(end, p.now.Truncate(2*time.Second)) // drawn anew every two seconds
	}
	whole := max(end.Sub(begin), time.Millisecond)
	percent := func(d time.Duration) float64 { return math.Round(1000*float64(max(0, d))/float64(whole)) / 10 }
	var bars []bar
	for _, t := range tasks {
		stop := cmp.Or(t.Left, end)
		if !t.Ended() {
			stop = end
		}
		left := min(99.5, percent(t.Began.Sub(begin)))
		name, visit := named(t)
		if len(t.Agents) > 0 && (t.Key != "" || t.Parent != nil) {
			visit = strings.TrimPrefix(visit+" · "+t.Agents[0].Title(), " · ")
		}
		bars = append(bars, bar{Label: name, Visit: visit, State: state(t), Link: p.query("task", t.Path), Selected: t.Path == p.task,
			Left: num(left), Width: num(max(0.5, min(100-left, percent(stop.Sub(t.Began))))),
			Tip: fmt.Sprintf("%s: %s, %s", t.Label(), state(t), inwords.Brief(t.Time.Elapsed(p.now)))})
	}
	return map[string]any{"Bars": bars, "More": more, "Whole": inwords.Brief(whole), "Height": 22 * len(bars)}
}

func num(f float64) string { return fmt.Sprintf("%.1f", f) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
