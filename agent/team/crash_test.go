package team_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/tool"
)

// asks is a gate that has people asked about all that is put.
type asks struct{}

func (asks) Check(t *tool.Tool, c *tool.Call) tool.Verdict {
	if t.Name != "put" {
		return tool.Verdict{Decision: tool.Allow}
	}
	return tool.Verdict{Decision: tool.Ask, Subject: string(c.Args)}
}

// Wherever a lead with a team is cut off that asks people for permission, it comes to the
// same end: no turn that is in the log is asked for again, nobody is asked twice, and
// nothing happens that was denied.
func TestCrashAtEveryAppend(t *testing.T) {
	say := func(name, prompt string, turn int) modeltest.Reply {
		switch {
		case name == "lead" && turn == 0:
			return calls(batch(task("explorer", "a"), task("chief", "b"), task("explorer", "fail")), call("task", task("explorer", "c")))
		case name == "chief" && turn == 0:
			return calls(call("task", task("explorer", "d")))
		case prompt == "fail" && turn == 1:
			return modeltest.Failure(401, "")
		case name == "explorer" && turn == 0:
			return calls(call("look", words{prompt}), call("put", words{prompt}))
		}
		return modeltest.Text(name + " did " + prompt)
	}
	answer := func(q runlog.Question) string {
		if strings.Contains(q.Text, `"d"`) {
			return `"deny: no d"`
		}
		return `"once"`
	}
	address := regexp.MustCompile(`http://127[0-9.:]*`)
	run := func(t *testing.T, store *runlogtest.Mortal) ([]string, *crew, error) {
		c := gather(t, nil, say)
		defer c.Close()
		c.gate = asks{}
		j, err := journal.Open(t.Context(), store, "run", &journal.Options{Create: &runlog.NewRun{Workflow: "test"}, Reopen: true})
		if err != nil {
			return nil, c, err
		}
		defer func() { _ = j.Close(context.Background()) }()
		for range 20 {
			out, err := c.lead.Run(t.Context(), j.Scope("work"), &agent.Work{Prompt: "go"})
			if !journal.Waits(err) {
				if err != nil {
					return nil, c, err
				}
				got := append(results(out), out.Text)
				for i := range got {
					got[i] = address.ReplaceAllString(got[i], "the server")
				}
				return got, c, nil
			}
			for _, q := range j.Open() {
				if err := j.Answer(t.Context(), q.Path, &runlog.Answer{Key: q.Key, Value: json.RawMessage(answer(q))}); err != nil {
					return nil, c, err
				}
			}
		}
		return nil, c, errors.New("it asks for ever")
	}
	want, c, err := run(t, runlogtest.NewMortal())
	if err != nil {
		t.Fatal(err)
	}
	if len(want) != 3 || !strings.Contains(want[0], "1/3 explorer: explorer did a\n\n2/3 chief: chief did b\n\n3/3 explorer: failed: ") || want[1] != "task error=false explorer did c" {
		t.Fatalf("%q", want)
	}
	if slices.Sort(c.ran); strings.Join(c.ran, ", ") != "look a, look c, look d, look fail, put a, put c, put fail" {
		t.Fatalf("ran %q", c.ran)
	}
	crashes := 0
	for n, ended := 0, false; !ended; n++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("append %d, after %v", n, after), func(t *testing.T) {
				store := runlogtest.NewMortal()
				store.DieAt(n, after)
				_, _, err := run(t, store)
				if err == nil {
					ended = true
					return
				}
				if !errors.Is(err, runlogtest.ErrCrash) {
					t.Fatal(err)
				}
				crashes++
				before := count(t, store)
				store.Revive()
				got, c, err := run(t, store)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				all := count(t, store)
				for q, n := range all.asked {
					if n != 1 {
						t.Errorf("%s was asked %d times", q, n)
					}
				}
				if n := len(c.server.Requests()); n > all.turns-before.turns+all.failed {
					t.Errorf("asked for %d turns, %d were missing", n, all.turns-before.turns)
				}
				if slices.Contains(c.ran, "put d") {
					t.Error("what was denied happened")
				}
			})
		}
	}
	if crashes < 50 {
		t.Errorf("only %d crashes", crashes)
	}
}

type counts struct {
	asked         map[string]int
	turns, failed int
}

func count(t *testing.T, store runlog.Store) counts {
	t.Helper()
	c := counts{asked: map[string]int{}}
	for r, err := range runlog.Records(t.Context(), store, "run", 0) {
		if err != nil {
			t.Fatal(err)
		}
		var s runlog.Settled
		var q runlog.Question
		switch {
		case r.Kind == runlog.KindSettled && json.Unmarshal(r.Data, &s) == nil && s.Kind == "model":
			if s.Error != "" {
				c.failed++
			} else {
				c.turns++
			}
		case r.Kind == runlog.KindAsked && json.Unmarshal(r.Data, &q) == nil:
			c.asked[r.Path+" "+q.Key]++
		}
	}
	return c
}
