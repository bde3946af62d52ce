package host

import (
	"errors"
	"strings"
	"testing"
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
