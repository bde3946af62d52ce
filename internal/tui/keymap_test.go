package tui

import (
	"strings"
	"testing"
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
