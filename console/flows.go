package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/question"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool/permit"
	"github.com/superstep-dev/superstep/workflow"
)

// A kind is a page that lists items of the catalog.
type kind struct{ Name, Title, One string }

var kinds = []kind{
	{host.Workflows, "Workflows", "workflow"}, {host.Agents, "Agents", "agent"}, {host.Tools, "Tools", "tool"}, {host.Skills, "Skills", "skill"},
}

func kindOf(r *http.Request) kind {
	name := strings.Split(r.URL.Path, "/")[1]
	return kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.Name == name })]
}

// itemsHandler answers GET /workflows, /agents, /tools and /skills.
func (s *server) itemsHandler(w http.ResponseWriter, r *http.Request) error {
	k := kindOf(r)
	s.host.Refresh()
	items, problems, err := s.host.List(r.Context(), k.Name, false)
	if err != nil {
		return err
	}
	used, err := s.usedBy(r.Context(), k)
	if err != nil {
		return err
	}
	last, lacking := map[string]string{}, false
	if k.Name == host.Workflows {
		lacking = !s.host.HasModel(r.Context())
		infos, err := s.engine.Runs(r.Context(), nil)
		if err != nil {
			return err
		}
		for _, i := range slices.Backward(infos) { // the newest is left
			last[i.Workflow] = string(i.Status)
		}
	}
	var wrong []string
	for _, p := range problems {
		wrong = append(wrong, s.clean(p.Error()))
	}
	s.page(w, r, http.StatusOK, "items", map[string]any{"Title": k.Title, "Kind": k, "Items": items, "Problems": wrong, "Last": last, "Used": used, "NoModel": lacking,
		"Acts": s.acts(r), "Program": s.opt.Program, "Command": s.opt.Program + " " + k.Name + " list"})
	return nil
}

func (s *server) acts(r *http.Request) bool { return s.guard.of(r) == operating && !s.opt.ReadOnly }

// usedBy returns what uses an agent or a skill, by its name.
func (s *server) usedBy(ctx context.Context, k kind) (map[string][]string, error) {
	out := map[string][]string{}
	if k.Name != host.Agents && k.Name != host.Tools {
		return out, nil
	}
	flows, _, err := s.host.List(ctx, host.Workflows, false)
	if err != nil {
		return nil, err
	}
	for _, w := range flows {
		item, err := s.host.Look(w.Name)
		if err != nil {
			continue // it is listed with what is wrong
		}
		var walk func(steps []host.Step)
		walk = func(steps []host.Step) {
			for _, x := range steps {
				if x.Uses != "" && !slices.Contains(out[x.Uses], w.Name) {
					out[x.Uses] = append(out[x.Uses], w.Name)
				}
				walk(x.Steps)
			}
		}
		walk(item.Steps)
	}
	if k.Name == host.Tools {
		agents, _, err := s.host.List(ctx, host.Agents, false)
		if err != nil {
			return nil, err
		}
		for _, a := range agents {
			for _, t := range a.Tools {
				out[t] = append(out[t], "agent "+a.Name)
			}
		}
	}
	return out, nil
}

// itemHandler answers GET /agents/{name}, /tools/{name} and /skills/{name}.
func (s *server) itemHandler(w http.ResponseWriter, r *http.Request) error {
	k, name := kindOf(r), r.PathValue("name")
	var item *host.Item
	var err error
	if k.Name == host.Tools {
		var items []host.Item
		items, _, err = s.host.List(r.Context(), k.Name, false)
		if i := slices.IndexFunc(items, func(i host.Item) bool { return i.Name == name }); i >= 0 {
			item = &items[i]
		}
	} else {
		item, err = s.host.Show(k.Name, name)
	}
	if err != nil || item == nil {
		return refuse(http.StatusNotFound, "There is no %s %s.", k.One, name)
	}
	used, err := s.usedBy(r.Context(), k)
	if err != nil {
		return err
	}
	var rules []permit.Rule
	if k.Name == host.Tools {
		if rules, err = s.host.Rules(); err != nil {
			return err
		}
		rules = slices.DeleteFunc(rules, func(x permit.Rule) bool {
			ok, err := path.Match(x.Tool, name)
			return !ok || err != nil
		})
	}
	s.page(w, r, http.StatusOK, "item", map[string]any{"Rules": rules, "Title": item.Name, "Kind": k, "Item": item, "Used": used[item.Name], "Program": s.opt.Program,
		"Command": fmt.Sprintf("%s %s show %s", s.opt.Program, k.Name, clean.Shell(item.Name)), "Try": k.Name == host.Agents && s.acts(r) && item.State == catalog.Usable,
		"NoModel": k.Name == host.Agents && !s.host.HasModel(r.Context())})
	return nil
}

// flowHandler answers GET /workflows/{name}.
func (s *server) flowHandler(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	s.host.Refresh()
	item, err := s.host.Show(host.Workflows, name)
	if item == nil {
		return refuse(http.StatusNotFound, "There is no workflow %s.", name)
	}
	data := map[string]any{"Title": item.Name, "Item": item, "Acts": s.acts(r), "Program": s.opt.Program, "Draft": item.State == catalog.Draft, "NoModel": !s.host.HasModel(r.Context()),
		"Text": transcript.Clean(item.Text), "Command": s.opt.Program + " run " + clean.Shell(item.Name)}
	var drawn *workflow.Workflow
	if err == nil {
		drawn, err = s.host.Draw(item)
	}
	if err == nil && drawn.Flow != nil {
		flow, err := drawn.Flow(json.RawMessage("{}"))
		if err == nil {
			data["SVG"] = (&svgShape{flow.Shape()}).draw(nil, "")
		} else {
			data["None"] = s.clean(err.Error())
		}
	} else if err != nil {
		data["None"] = s.clean(err.Error())
	}
	if item.State == catalog.Invalid && item.Text != "" {
		data["None"] = "the recipe has mistakes"
	}
	if item.Text != "" {
		problems, err := s.host.LintText(item.Name+".yaml", []byte(item.Text))
		if err != nil {
			return err
		}
		data["Problems"], data["Rows"] = s.problems(problems), strings.Count(item.Text, "\n")+2
	}
	if ready, err := s.host.Find(item.Name); err == nil {
		data["Form"] = inputsOf(ready, s.lastInputs(r.Context(), item.Name))
	} else {
		data["NotReady"], data["Trust"] = s.clean(err.Error()), s.trustCommand(err)
	}
	infos, err := s.engine.Runs(r.Context(), nil)
	if err != nil {
		return err
	}
	infos = slices.DeleteFunc(infos, func(i runlog.Info) bool { return i.Workflow != item.Name })
	rows, _, err := s.host.RunItems(r.Context(), infos[:min(10, len(infos))])
	if err != nil {
		return err
	}
	p := &runsPage{s: s}
	var history strings.Builder
	for _, row := range rows {
		history.WriteString(s.html("runs-row", p.row(row)))
	}
	data["History"] = template.HTML(history.String()) //nolint:gosec // made by a template
	s.page(w, r, http.StatusOK, "flow", data)
	return nil
}

// A lintLine is a problem of a recipe.
type lintLine struct {
	Line    int    `json:"line"`
	Col     int    `json:"col"`
	Text    string `json:"text"`
	Warning bool   `json:"warning,omitempty"`
}

func (s *server) problems(list recipe.Problems) []lintLine {
	var out []lintLine
	for _, p := range list {
		out = append(out, lintLine{p.Pos.Line, p.Pos.Col, s.clean(p.Text), p.Warning})
	}
	return out
}

// A srcLine is a line of a recipe, with what is wrong in it.
type srcLine struct {
	N       int
	Problem string
	Warning bool
}

// numbered returns the lines of a text with the problems in them.
func numbered(text string, problems []lintLine) []srcLine {
	out := make([]srcLine, strings.Count(text, "\n")+1)
	for i := range out {
		out[i].N = i + 1
	}
	for _, p := range problems {
		if p.Line < 1 || p.Line > len(out) {
			continue
		}
		l := &out[p.Line-1]
		l.Warning = p.Warning && (l.Problem == "" || l.Warning)
		l.Problem = strings.TrimPrefix(l.Problem+"; "+p.Text, "; ")
	}
	return out
}

// inputField is an input of a workflow in a form.
type inputField struct {
	workflow.Input
	Value   string
	Options []string
	Long    bool
}

// inputsOf returns the form of a workflow with the inputs of the last run, or the defaults.
func inputsOf(w *workflow.Workflow, last map[string]json.RawMessage) []inputField {
	var out []inputField
	for _, in := range w.List() {
		f := inputField{Input: in}
		value := in.Default
		if v, ok := last[in.Name]; ok {
			value = v
		}
		f.Value = transcript.Clean(transcript.Value(value))
		for _, e := range in.Enum {
			f.Options = append(f.Options, fmt.Sprint(e))
		}
		f.Long = in.Type == "string" && len(in.Enum) == 0
		out = append(out, f)
	}
	return out
}

// lastInputs returns the inputs of the newest run of a workflow.
func (s *server) lastInputs(ctx context.Context, name string) map[string]json.RawMessage {
	infos, err := s.engine.Runs(ctx, nil)
	if err != nil {
		return nil
	}
	i := slices.IndexFunc(infos, func(i runlog.Info) bool { return i.Workflow == name })
	if i < 0 {
		return nil
	}
	store, err := s.host.Store(ctx, true)
	if err != nil {
		return nil
	}
	recs, err := store.Read(ctx, infos[i].ID, 1, 1)
	if err != nil || len(recs) == 0 {
		return nil
	}
	var started struct{ Inputs map[string]json.RawMessage }
	if json.Unmarshal(recs[0].Data, &started) != nil {
		return nil
	}
	return started.Inputs
}

// given returns the inputs of a form as JSON.
func (s *server) given(h *host.Host, w *workflow.Workflow, form url.Values) (json.RawMessage, error) {
	if text := strings.TrimSpace(form.Get("json")); text != "" {
		if !json.Valid([]byte(text)) {
			return nil, refuse(http.StatusUnprocessableEntity, "The inputs are no JSON object.")
		}
		if err := w.Check(json.RawMessage(text)); err != nil {
			return nil, s.notReady(h, w, err)
		}
		return json.RawMessage(text), nil
	}
	values := map[string]json.RawMessage{}
	for _, in := range w.List() {
		text := form.Get("in." + in.Name)
		if strings.TrimSpace(text) == "" {
			if in.Required {
				return nil, refuse(http.StatusUnprocessableEntity, "%s is required.", in.Name)
			}
			continue
		}
		f := question.Field{Name: in.Name, Type: in.Type}
		v, err := f.Read(text)
		if in.Type == "string" {
			v, err = json.Marshal(text)
		}
		if err != nil {
			return nil, refuse(http.StatusUnprocessableEntity, "%v", err)
		}
		values[in.Name] = v
	}
	raw, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	if err := w.Check(raw); err != nil {
		return nil, s.notReady(h, w, err)
	}
	return raw, nil
}

// with returns the host with a model, "" for the one that is configured.
func (s *server) with(model string) *host.Host {
	if model == "" {
		return s.host
	}
	set := s.host.Settings()
	set.Model = model
	return s.host.With(set)
}

func lacksModel(err error) bool {
	var none *host.Error
	return errors.As(err, &none) && none.Code == "no_model"
}

// trustCommand returns the command that trusts what an error is about, "" if its cause is another one.
func (s *server) trustCommand(err error) string {
	if d := s.host.Untrusted(err); d != nil {
		return s.opt.Program + " trust " + clean.Shell(d.Name)
	}
	return ""
}

// notReady refuses to start a workflow, and names what to do about it. W is nil if there is none of the name that may run.
func (s *server) notReady(h *host.Host, w *workflow.Workflow, err error) error {
	text := err.Error()
	if command := s.trustCommand(err); command != "" {
		text += "\n• look at it and decide: " + command
	}
	if w != nil && lacksModel(err) {
		text += "\n• set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, and start the console again\n• start Ollama, LM Studio or llama.cpp on this machine\n• see what there is: " + s.opt.Program + " models list"
		if h.IsRecipe(w.Name) && len(h.Judgements(w)) == 0 {
			text += "\n• or try it now: type " + host.Offline + " into Model (in a program: \"model\": \"" + host.Offline + "\")"
		}
	}
	return refuse(http.StatusUnprocessableEntity, "%s", text)
}

// startRun answers POST /runs.
func (s *server) startRun(ctx context.Context, r *http.Request) (string, error) {
	form := r.PostForm
	s.host.Refresh() // a recipe may be new
	h := s.with(form.Get("model"))
	w, err := h.Find(form.Get("workflow"))
	if err != nil {
		return "", s.notReady(h, nil, err)
	}
	inputs, err := s.given(h, w, form)
	if err != nil {
		return "", err
	}
	if w.Pin != nil && !h.HasModel(ctx) { // else the process that starts it would say so, in the words of the command line
		if _, err := w.Pin(inputs); lacksModel(err) {
			return "", s.notReady(h, w, err)
		}
	}
	st := &Start{Workflow: w.Name, Inputs: inputs, Model: form.Get("model"), Trace: r.Header.Get("Traceparent")}
	if key := keyOf(r); key != "" { // also for a console that is started anew
		st.ID = short("c", key)
	}
	if text := form.Get("queue"); text != "" {
		return s.enqueue(ctx, st, text)
	}
	id, err := s.start(ctx, st)
	if err != nil {
		return "", err
	}
	if talks(w.Name, inputs) {
		return "/runs/" + id + "?tab=" + chatTab, nil
	}
	return "/runs/" + id, nil
}

// enqueue leaves a run to a worker. Text is a runlog.Queue, or "true" if it needs nothing.
func (s *server) enqueue(ctx context.Context, st *Start, text string) (string, error) {
	var q runlog.Queue
	if err := json.Unmarshal([]byte(text), &q); err != nil && text != "true" {
		return "", refuse(http.StatusUnprocessableEntity, "queue: %v.", err)
	}
	info, err := s.with(st.Model).Enqueue(ctx, st.Workflow, st.Inputs, &superstep.StartOptions{ID: st.ID, Queue: &q})
	if err != nil {
		return "", err
	}
	return "/runs/" + info.ID, nil
}

// lintHandler answers POST /lint with the problems of a text, as HTML.
func (s *server) lintHandler(w http.ResponseWriter, r *http.Request) error {
	if err := formed(r); err != nil {
		return err
	}
	problems, err := s.lint(r.PostForm)
	if err != nil {
		return err
	}
	s.write(w, r, http.StatusOK, "text/html; charset=utf-8", []byte(s.html("lint", map[string]any{"Text": r.PostForm.Get("text"), "Problems": problems})))
	return nil
}

// lint returns the problems of the text of a form, whose ends of lines it makes those of a file.
func (s *server) lint(form url.Values) ([]lintLine, error) {
	form.Set("text", strings.ReplaceAll(form.Get("text"), "\r\n", "\n"))
	problems, err := s.host.LintText(cmp.Or(form.Get("name"), "recipe")+".yaml", []byte(form.Get("text")))
	return s.problems(problems), err
}

// draft answers POST /workflows/{name}/approve and /reject.
func (s *server) draft(approve bool) act {
	return func(_ context.Context, r *http.Request) (string, error) {
		name := r.PathValue("name")
		var err error
		if approve {
			_, err = s.host.Approve(name, r.PostForm.Get("replace") == "yes")
		} else {
			_, err = s.host.Reject(name)
		}
		if err != nil {
			return "", refuse(http.StatusConflict, "%v", err)
		}
		if s.host.Refresh(); approve {
			return "/workflows/" + url.PathEscape(name), nil
		}
		return "/workflows", nil
	}
}

// effective returns the settings and the permission rules, each with its source.
func (s *server) effective() ([]host.EffectiveSetting, []permit.Rule, error) {
	settings, err := s.host.Effective(s.host.Configuration(""), s.opt.Default)
	if err != nil {
		return nil, nil, err
	}
	for i := range settings {
		settings[i].Value = s.clean(settings[i].Value)
	}
	rules, err := s.host.Rules()
	return settings, rules, err
}

// settingsHandler answers GET /settings.
func (s *server) settingsHandler(w http.ResponseWriter, r *http.Request) error {
	settings, rules, err := s.effective()
	if err != nil {
		return err
	}
	var own, builtin []permit.Rule
	for _, x := range rules {
		if x.Layer == permit.BuiltIn {
			builtin = append(builtin, x)
		} else {
			own = append(own, x)
		}
	}
	models, err := s.host.ListModels(r.Context())
	if err != nil {
		return err
	}
	place, err := s.host.Place()
	if err != nil {
		return err
	}
	s.page(w, r, http.StatusOK, "settings", map[string]any{"Title": "Settings", "Settings": settings, "Rules": own, "BuiltIn": builtin, "Models": models, "Store": place.String(),
		"DataDir": s.host.DataDir(), "Checks": s.host.Doctor(r.Context(), s.host.Configuration("")), "Acts": s.acts(r), "Program": s.opt.Program, "ReadOnly": s.opt.ReadOnly})
	return nil
}

// forget answers POST /settings/forget.
func (s *server) forget(_ context.Context, r *http.Request) (string, error) {
	if err := s.host.Forget(r.PostForm.Get("rule")); err != nil {
		return "", refuse(http.StatusConflict, "%v", err)
	}
	return "/settings", nil
}
