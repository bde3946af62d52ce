package tui

import (
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/question"
	"github.com/superstep-dev/superstep/internal/transcript/recorded"
)

// Convention 31: keys are what the user has made them, unless that would take a letter from the composer, or mean two things in one place.
func TestConvention31Keys(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]string{
		"graph=ctrl+e": "", "resumeRun=R": "", "stop=F2 ctrl+c": "", "open=enter right": "", "play=p": "", "demo=x": "", "pause=z": "",
		"graph=x": "could not be typed", "send=é": "could not be typed", "pause=b": "keys.budget and keys.pause: b is for both",
		"diff=q": "q is for both", "history=ctrl+c": "ctrl+c is for both", "runs=": "want one or several keys", "graff=x": "did you mean graph?",
	} {
		action, key, _ := strings.Cut(keys, "=")
		m, err := newKeymap(map[string]string{action: key})
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v", keys, err)
		case want == "" && (!m.is(keyNamed(strings.Fields(key)[0]), action) && key != "F2 ctrl+c"):
			t.Errorf("%s: the key does nothing", keys)
		}
	}
	m, err := newKeymap(map[string]string{"resumeRun": "R"})
	if err != nil || m.is(keyNamed("r"), "resumeRun") {
		t.Errorf("r is R: %v", err)
	}
	// Those of peers do what they do there.
	s := showRun(t, "")
	for _, rec := range recorded.Load(recorded.Names()[0]) {
		s.give(&rec)
	}
	key := func(name string) { s.Update(keyNamed(name)) }
	if key("shift+tab"); s.compose.mode != question.ModeEdits {
		t.Error("Shift+Tab changes no mode")
	}
	if key("ctrl+t"); !s.view.todos {
		t.Error("^T shows no tasks")
	}
	if key("ctrl+o"); !s.view.expanded {
		t.Error("^O does not expand")
	}
	if key("ctrl+r"); s.compose.search == nil {
		t.Error("^R does not search")
	}
	if key("esc"); s.compose.search != nil {
		t.Error("Esc does not end the search")
	}
	if key("ctrl+g"); len(s.panes) != 1 {
		t.Error("^G shows no graph")
	}
	if key("esc"); len(s.panes) != 0 {
		t.Error("Esc does not go back")
	}
	// All of them are listed by ?, with what they do.
	h := newHarbour(t)
	h.press("tab", "?")
	help := ""
	for range 20 {
		help += h.picture(120, 30)
		h.press("pgdown")
	}
	for _, b := range bindings() {
		if !strings.Contains(help, b.about) || !strings.Contains(help, strings.Join(b.keys, ", ")) {
			t.Errorf("? does not tell of %s", b.action)
		}
	}
}
