package console

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/evaluate"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// runsPerPage is how many runs a page lists.
const runsPerPage = 50

// runsPage is the list of runs with its filters.
type runsPage struct {
	s           *server
	tab         string // all (but those of evaluations), needs-you, running, failed, retrying, evaluations
	workflow, q string
	before      string // the ID of the last run of the page before
	acts        bool
	pick        bool   // rows can be selected
	next        string // the last run of this page, if another one follows
	counts      map[string]int
}

var tabs = []struct{ Name, Title string }{{"all", "Runs"}, {"needs-you", "Needs you"}, {"running", "Running"}, {"failed", "Failed"}, {"retrying", "Retrying"}, {"evaluations", "Evaluations"}}

func (s *server) runsOf(r *http.Request) (*runsPage, error) {
	q := r.URL.Query()
	p := &runsPage{s: s, tab: cmp.Or(q.Get("tab"), "all"), workflow: q.Get("workflow"), q: strings.TrimSpace(q.Get("q")), before: q.Get("before"),
		acts: s.acts(r), pick: true}
	if !slices.ContainsFunc(tabs, func(t struct{ Name, Title string }) bool { return t.Name == p.tab }) {
		return nil, refuse(http.StatusBadRequest, "tab: there is no list %q.", p.tab)
	}
	return p, nil
}

// query returns the address of the list with other filters.
func (p *runsPage) query(pairs ...string) string {
	q := url.Values{}
	set := func(k, v string) {
		if q.Del(k); v != "" && v != "all" {
			q.Set(k, v)
		}
	}
	set("tab", p.tab)
	set("workflow", p.workflow)
	set("q", p.q)
	set("before", p.before)
	for i := 0; i+1 < len(pairs); i += 2 {
		set(pairs[i], pairs[i+1])
	}
	u := url.URL{Path: "/runs", RawQuery: q.Encode()}
	return u.String()
}

// belongs reports whether a run is in a list.
func belongs(tab string, i *runlog.Info, sum *summary.Summary) bool {
	switch tab {
	case "needs-you":
		return !i.Status.Ended() && i.Status != runlog.Failed && sum != nil && (sum.Open > 0 || sum.Waits == summary.Budget)
	case "running":
		return i.Status == runlog.Running
	case "failed":
		return i.Status == runlog.Failed || i.Status == runlog.Partial || i.Status == runlog.Quarantined
	case "retrying":
		return i.Status == runlog.Running && sum != nil && (sum.Waits == summary.RateLimit || sum.Waits == summary.Retry)
	case "evaluations":
		return evaluate.Of(i)
	}
	return !evaluate.Of(i)
}

// read returns the runs of the page, and counts those of each list.
func (p *runsPage) read(ctx context.Context) ([]host.RunItem, error) {
	infos, err := p.s.engine.Runs(ctx, nil)
	if err != nil {
		return nil, err
	}
	unserved, err := p.s.host.Unserved(ctx, infos)
	if err != nil {
		return nil, err
	}
	p.counts, p.next = map[string]int{}, ""
	var shown []runlog.Info
	skip := p.before != ""
	for _, i := range infos {
		var sum *summary.Summary
		if !i.Status.Ended() && i.Status != runlog.Failed { // else it is in no list for what it waits for
			sum = summary.Of(&i)
		}
		in := func(tab string) bool { return belongs(tab, &i, sum) || tab == "needs-you" && unserved(&i) }
		for _, t := range tabs {
			if in(t.Name) {
				p.counts[t.Name]++
			}
		}
		if !in(p.tab) || p.workflow != "" && i.Workflow != p.workflow || !found(&i, p.q) {
			continue
		}
		if skip {
			skip = i.ID != p.before
			continue
		}
		if len(shown) == runsPerPage {
			p.next = shown[len(shown)-1].ID
			continue
		}
		shown = append(shown, i)
	}
	items, _, err := p.s.host.RunItems(ctx, shown)
	return items, err
}

func found(i *runlog.Info, q string) bool {
	if q == "" {
		return true
	}
	return strings.Contains(strings.ToLower(i.ID+" "+i.Workflow+" "+i.Title), strings.ToLower(q))
}

// runRow is a run for its template.
type runRow struct {
	host.RunItem
	Pick      bool   // it can be selected
	Help      string // the command that helps a run that no worker takes
	State     string // as people read it
	Progress  string
	Where     string // the step that it is at, or has failed in
	Spent     string
	Stamp     string
	TokenText string
}

func (p *runsPage) lists() []list {
	ctx, cancel := context.WithTimeout(p.s.ctx, 10*time.Second)
	defer cancel()
	items, err := p.read(ctx)
	if err != nil {
		return []list{{"runs", nil}, {"trouble", []piece{{"runs-trouble", 0, func() string {
			return p.s.html("trouble", p.s.clean(err.Error()))
		}}}}}
	}
	l := list{id: "runs"}
	for _, i := range items {
		l.pieces = append(l.pieces, piece{"run-" + i.ID, 0, func() string { return p.s.html("runs-row", p.row(i)) }})
	}
	more := list{id: "runs-more"}
	if p.next != "" {
		more.pieces = []piece{{"runs-next", 0, func() string { return p.s.html("runs-next", p.query("before", p.next)) }}}
	}
	if len(items) == 0 {
		more.pieces = []piece{{"runs-none", 0, func() string {
			return p.s.html("runs-none", map[string]any{"Filtered": p.q+p.workflow != "" || p.tab != "all", "Program": p.s.opt.Program})
		}}}
	}
	head := list{"tabs", nil}
	for _, t := range tabs {
		head.pieces = append(head.pieces, piece{"tab-" + t.Name, 0, func() string {
			return p.s.html("runs-tab", map[string]any{"ID": "tab-" + t.Name, "Title": t.Title, "N": p.counts[t.Name], "Here": t.Name == p.tab,
				"Link": p.query("tab", t.Name, "before", "")})
		}})
	}
	return []list{head, l, more, {"trouble", nil}}
}

func (p *runsPage) row(i host.RunItem) *runRow {
	i.Title, i.Workflow = transcript.Line(i.Title), transcript.Line(i.Workflow)
	row := &runRow{RunItem: i, Pick: p.pick, State: string(i.Status), Spent: i.Cost.String(), Stamp: i.Created.UTC().Format(time.RFC3339), TokenText: inwords.Count(int(i.Tokens))}
	if i.Nodes > 0 {
		row.Progress = fmt.Sprintf("%d/%d", i.Done, i.Nodes)
	} else if i.Step > 0 {
		row.Progress = fmt.Sprintf("step %d", i.Step)
	}
	if i.Failed != "" {
		row.Where = transcript.Line(i.Failed)
	}
	if i.Next != "" {
		row.Help = p.s.opt.Program + " " + i.Next
	}
	switch {
	case i.Open > 0 && !i.Status.Ended():
		row.State = "needs you"
	case i.Waits == summary.RateLimit:
		row.State = "rate limit"
	case i.Waits == summary.Retry:
		row.State = "retrying"
	}
	return row
}

// runsHandler answers GET /runs.
func (s *server) runsHandler(w http.ResponseWriter, r *http.Request) error {
	p, err := s.runsOf(r)
	if err != nil {
		return err
	}
	v := p.live()
	data := map[string]any{"Title": "Runs", "Here": p.query(), "Acts": p.acts, "Tab": p.tab, "Workflow": p.workflow, "Q": p.q, "Program": s.opt.Program}
	names := []string{}
	for _, w := range s.engine.Workflows() {
		names = append(names, w.Name)
	}
	data["Workflows"] = names
	v.mu.Lock()
	n := v.update()
	for id := range v.order {
		data[strings.ReplaceAll(id, "-", "_")] = template.HTML(v.html(id)) //nolint:gosec // made by templates
	}
	v.mu.Unlock()
	data["Stream"], data["Since"] = "/runs/events?"+r.URL.Query().Encode(), fmt.Sprintf("%s.%d", s.epoch, n)
	s.page(w, r, http.StatusOK, "runs", data)
	return nil
}

func (p *runsPage) live() *view {
	return p.s.view(fmt.Sprintf("runs %t %s", p.acts, p.query()), func(v *view) { v.draw = func(use func([]list)) { use(p.lists()) } })
}

// runsEvents answers GET /runs/events.
func (s *server) runsEvents(w http.ResponseWriter, r *http.Request) error {
	p, err := s.runsOf(r)
	if err != nil {
		return err
	}
	return s.stream(w, r, p.live(), everySecond)
}

// everySecond wakes a list of what is in the store.
func everySecond(ctx context.Context) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	go func() {
		t := time.NewTicker(time.Second)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				select {
				case c <- struct{}{}:
				default:
				}
			}
		}
	}()
	return c, func() {}
}
