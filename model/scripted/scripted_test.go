package scripted_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

func ask(m model.Model, system, text string) (string, error) {
	resp, err := model.Collect(m.Generate(context.Background(), &model.Request{System: system, Messages: []model.Message{model.UserText(text)}}), nil)
	if err != nil {
		return "", err
	}
	return resp.Message.Text(), nil
}

// Turns are given in order, whole, and one too many fails with what it was asked.
func TestTurns(t *testing.T) {
	m := &scripted.Model{Turns: []scripted.Turn{
		scripted.Think("hm").And(scripted.Say("a ", "b")).And(scripted.Call("look", `{"at":1}`)).And(scripted.Call("look", `{}`)).Using(10, 2),
		scripted.Fail(errors.New("down")),
		{Parts: scripted.Say("cut").Parts, Stop: model.StopLength},
	}}
	if err := m.Unused(); err == nil || err.Error() != "test/scripted: nobody asked for Turns: 3 of 3 turns" {
		t.Error(err)
	}
	req := &model.Request{Messages: []model.Message{model.UserText("go")}}
	deltas := 0
	resp, err := model.Collect(m.Generate(t.Context(), req), func(model.Part) { deltas++ })
	if err != nil {
		t.Fatal(err)
	}
	want := &model.Response{Usage: model.Usage{In: 10, Out: 2}, Stop: model.StopCalls, Message: model.Message{Role: model.Assistant, Parts: []model.Part{
		{Kind: model.Reasoning, Text: "hm"}, {Kind: model.Text, Text: "a b"},
		{Kind: model.ToolCall, Call: &model.Call{ID: "call-1-4", Name: "look", Args: []byte(`{"at":1}`)}},
		{Kind: model.ToolCall, Call: &model.Call{ID: "call-1-5", Name: "look", Args: []byte(`{}`)}},
	}}}
	if diff := cmp.Diff(want, resp); diff != "" || deltas != 7 {
		t.Errorf("%d parts: %s", deltas, diff)
	}
	if _, err := ask(m, "", "go"); err == nil || err.Error() != "down" {
		t.Error(err)
	}
	if resp, err := model.Collect(m.Generate(t.Context(), req), nil); err != nil || resp.Stop != model.StopLength {
		t.Error(resp, err)
	}
	if err := m.Unused(); err != nil {
		t.Error(err)
	}
	const over = `test/scripted: Turns has no more than 3 turns, and is asked for another; the request ends with the user message "why?"`
	if _, err := ask(m, "", "why?"); err == nil || err.Error() != over {
		t.Error(err)
	}
	if got := m.Requests(); len(got) != 4 || got[3].Messages[0].Text() != "why?" {
		t.Errorf("asked %+v", got)
	}
}

// Conversations with scripts of their own get the same turns in whatever order they ask.
func TestPrompts(t *testing.T) {
	m := &scripted.Model{
		ID: "acme/m1", Tokens: 1000, Cost: &model.Price{In: 1},
		Prompts: []scripted.Prompt{
			{Has: "red", Turns: []scripted.Turn{scripted.Say("r1"), scripted.Say("r2")}},
			{Has: "blue", Turns: []scripted.Turn{scripted.Say("b1"), scripted.Say("b2")}},
		},
		Answer: func(r *model.Request) scripted.Turn { return scripted.Say("other: " + r.Messages[0].Text()) },
	}
	var work sync.WaitGroup
	for _, c := range []struct{ system, text, want string }{{"", "paint it red", "r1 r2"}, {"You are blue.", "paint", "b1 b2"}, {"", "green", "other: green other: green"}} {
		work.Go(func() {
			first, err := ask(m, c.system, c.text)
			second, err2 := ask(m, c.system, c.text)
			if got := first + " " + second; got != c.want || err != nil || err2 != nil {
				t.Errorf("got %q, want %q (%v, %v)", got, c.want, err, err2)
			}
		})
	}
	work.Wait()
	if err := m.Unused(); err != nil {
		t.Error(err)
	}
	if _, err := ask(m, "", "red again"); err == nil || !strings.Contains(err.Error(), `the prompt with "red" has no more than 2 turns`) {
		t.Error(err)
	}
	window, sized := m.Window()
	if price, known := m.Price(); m.Name() != "acme/m1" || window != 1000 || !sized || price.In != 1 || !known {
		t.Error(m.Name(), window, price)
	}
}

// A turn takes its time by the clock of the test, and ends with its context.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		time.AfterFunc(time.Hour, func() { close(open) })
		m := &scripted.Model{Answer: func(*model.Request) scripted.Turn {
			return scripted.Turn{Delay: time.Minute, Until: open}
		}}
		began := time.Now()
		if _, err := ask(m, "", "go"); err != nil || time.Since(began) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := model.Collect(m.Generate(ctx, &model.Request{}), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
