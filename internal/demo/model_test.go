package demo

import (
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/model"
)

// The model of the demo is for its recipe, and says so.
func TestModel(t *testing.T) {
	t.Parallel()
	m := NewModel(func(string) string { return "0 false" })
	if m.Name() != Name {
		t.Fatal(m.Name())
	}
	ask := func(msgs ...model.Message) (*model.Response, error) {
		return model.Collect(m.Generate(t.Context(), &model.Request{Messages: msgs}), nil)
	}
	if _, err := ask(model.UserText("Tell me a joke: please")); err == nil || !strings.Contains(err.Error(), "name another with --model") {
		t.Error(err)
	}
	asked := model.UserText("Report: write postmortem.md for customers from these findings.")
	r, err := ask(asked)
	if err != nil || r.Message.Text() == "" || !strings.Contains(string(r.Message.Calls()[0].Args), "for customers") {
		t.Fatalf("%+v %v", r, err)
	}
	again, err := ask(asked) // a new process has asked nothing yet
	if err != nil || string(again.Message.Calls()[0].Args) != string(r.Message.Calls()[0].Args) {
		t.Errorf("%+v %v", again, err)
	}
}
