package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/agent/acp"
	delegate "github.com/superstep-dev/superstep/internal/builtin/agent"
	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
)

// compact asks an agent of a run, "" for the lead, to sum up its conversation before its next turn. Waits reports that the run waits for a message first.
func compact(ctx context.Context, a *app, info *runlog.Info, agent string) (waits bool, err error) {
	if info.Status.Ended() {
		return false, &runlog.EndedError{ID: info.ID, Status: info.Status}
	}
	run, err := a.host().Transcript(ctx, info)
	if err != nil {
		return false, err
	}
	agents, err := mail.Agents(runlog.Records(ctx, a.store, info.ID, 0))
	if err != nil {
		return false, err
	}
	var known []string
	for _, x := range agents {
		known = append(known, x.Path)
	}
	lead := ""
	turns, outside := map[string]int{}, map[string]bool{} // by the paths of agents; "" for those that were tasks of the run itself
	for _, x := range run.Agents {
		path := strings.TrimSuffix(x.Task.Path+"/"+x.Use, "/")
		if turns[path] += x.Turns; !strings.Contains(path, "/") {
			lead = path
			turns[""] += x.Turns
		}
		outside[path] = strings.HasPrefix(x.Model, acp.Prefix)
	}
	chat := agent == "" && info.Workflow == delegate.Name
	waits = chat && slices.ContainsFunc(run.Open(), func(q *transcript.Question) bool { return q.Kind == runlog.QuestionMessage })
	switch {
	case waits:
		agent = lead
	case len(known) == 0:
		return false, fmt.Errorf("run %s: no agent works now, so there is no conversation to sum up", info.ID)
	case agent == "":
		agent = known[0]
	case !slices.Contains(known, agent):
		return false, fmt.Errorf("run %s: no agent %q runs%s; those that run are: %s", info.ID, agent, suggest.Hint(agent, known), strings.Join(known, ", "))
	}
	if outside[agent] {
		return false, fmt.Errorf("run %s: agent %s is another program, which keeps its conversation itself; it cannot be summed up here", info.ID, agent)
	}
	if chat { // its messages are tasks of their own, and the request is also for the one that works on the next
		agent = ""
	}
	const least = 2                                // turns of a conversation that can be summed up
	if turns[agent] < least && info.Parent == "" { // a run that continues another has its conversation
		return false, errors.New("there is nothing to sum up yet: the agent has taken fewer than 2 turns")
	}
	r := unlisted.Request{Kind: unlisted.KindSteer, Path: agent, Time: time.Now().UTC(), Data: json.RawMessage(unlisted.Compact)}
	return waits, unlisted.Post(ctx, a.store, info.ID, &r)
}
