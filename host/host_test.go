package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A step of a recipe may use the offline model; an agent that people talk to may not.
func TestOfflineModel(t *testing.T) {
	dir := t.TempDir()
	h, err := Open(t.Context(), &Config{Dir: dir, Settings: Settings{Offline: true}, Env: func(name string) string {
		if name == "HOME" || strings.HasPrefix(name, "XDG_") {
			return dir
		}
		return ""
	}})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := h.stepModel(Offline); err != nil || m.Name() != Offline {
		t.Errorf("%v, %v", m, err)
	}
	var none *Error
	if _, err := h.stepModel(""); !errors.As(err, &none) || none.Code != "no_model" || none.Message != "no model is configured" || len(none.Next) != 0 {
		t.Errorf("%v %+v", err, none)
	}
	if _, err := h.agentModel(""); !errors.As(err, &none) || none.Code != "no_model" || !strings.Contains(none.Message, "an agent needs one") {
		t.Errorf("%v %+v", err, none)
	}
	if _, err := h.agentModel(Offline); err == nil {
		t.Error("an agent that people talk to has the offline model")
	}
	if n := h.Counts(); n.Opened+n.Stores+n.Compiled != 0 {
		t.Errorf("models open something else: %+v", n)
	}
}

// A program of one's own has the settings of its user: a variable goes before the configuration, and the program before both.
func TestOpenReadsConfiguration(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, ".config", "superstep", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	text := "store: file:~/runs\nmodel: openai/x\nturn-timeout: 3m\nmax-concurrency: 4\noffline: true\non-ask: wait\noutput: json\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	user := atHome(home)
	cfg := &Config{Env: func(name string) string {
		if name == "SUPERSTEP_ON_ASK" {
			return "deny"
		}
		return user(name)
	}, Settings: Settings{Concurrency: 2}}
	h, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := h.Settings()
	if s.Store != "file:"+filepath.Join(home, "runs") || s.Origin != path+":1: store" || s.Model != "openai/x" || s.UserModel != "openai/x" ||
		s.TurnTimeout != 3*time.Minute || s.Concurrency != 2 || !s.Offline || s.OnAsk != "deny" {
		t.Errorf("%+v", s)
	}
	if err := os.WriteFile(path, []byte("stor: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), `config.yaml:1:1: there is no setting "stor"; did you mean "store"?`) {
		t.Error(err)
	}
	cfg.Settled = true
	if h, err := Open(t.Context(), cfg); err != nil || h.Settings().Concurrency != 2 || h.Settings().Model != "" {
		t.Errorf("%v", err)
	}
}
