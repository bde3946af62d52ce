package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/agent/acp"
	delegate "github.com/superstep-dev/superstep/internal/builtin/agent"
	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
)

// compact asks an agent of a run, "" for the lead, to sum up its conversation before its next turn. Waits reports that the run waits for a message first.
func compact(ctx context.Context, store runlog.Store, info *runlog.Info, agent string) (waits bool, err error) {
	if info.Status.Ended() {
		return false, &runlog.EndedError{ID: info.ID, Status: info.Status}
	}
	s := speaking{turns: map[string]int{}, outside: map[string]bool{}}
	agents, err := mail.Agents(s.watch(runlog.Records(ctx, store, info.ID, 0)))
	if err != nil {
		return false, err
	}
	var known []string
	for _, a := range agents {
		known = append(known, a.Path)
	}
	chat := agent == "" && info.Workflow == delegate.Name
	waits = chat && s.awaits
	switch {
	case chat && s.awaits:
		agent = s.lead
	case len(known) == 0:
		return false, fmt.Errorf("run %s: no agent works now, so there is no conversation to sum up", info.ID)
	case agent == "":
		agent = known[0]
	case !slices.Contains(known, agent):
		return false, fmt.Errorf("run %s: no agent %q runs%s; those that run are: %s", info.ID, agent, suggest.Hint(agent, known), strings.Join(known, ", "))
	}
	turns := s.turns[agent]
	if chat { // its messages are tasks of their own
		turns = s.leads
	}
	const least = 2 // turns of a conversation that can be summed up
	switch {
	case s.outside[agent]:
		return false, fmt.Errorf("run %s: agent %s is another program, which keeps its conversation itself; it cannot be summed up here", info.ID, agent)
	case turns < least && info.Parent == "": // a run that continues another has its conversation
		return false, errors.New("there is nothing to sum up yet: the agent has taken fewer than 2 turns")
	case chat:
		agent = "" // also the one that works on the next message
	}
	r := unlisted.Request{Kind: unlisted.KindSteer, Path: agent, Time: time.Now().UTC(), Data: json.RawMessage(unlisted.Compact)}
	return waits, unlisted.Post(ctx, store, info.ID, &r)
}

// speaking is what the log of a run tells about conversations.
type speaking struct {
	turns   map[string]int  // by the paths of agents
	outside map[string]bool // the agents that are other programs
	lead    string          // the last agent that was a task of the run itself
	leads   int             // the turns of all of these
	awaits  bool            // the run waits for a message
	asked   string          // the task that asks for it
}

// watch notes what the records tell while they are read.
func (s *speaking) watch(recs iter.Seq2[runlog.Record, error]) iter.Seq2[runlog.Record, error] {
	return func(yield func(runlog.Record, error) bool) {
		for r, err := range recs {
			if err == nil {
				s.note(&r)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (s *speaking) note(r *runlog.Record) {
	switch r.Kind {
	case runlog.KindAsked:
		var q runlog.Question
		if json.Unmarshal(r.Data, &q) == nil && q.Kind == runlog.QuestionMessage {
			s.awaits, s.asked = true, r.Path
		}
	case runlog.KindAnswered:
		if r.Path == s.asked {
			s.awaits = false
		}
	case runlog.KindSettled:
		d := mail.Settled(r)
		if d == nil || d.Error != "" {
			return
		}
		key := d.Key[strings.LastIndexByte(d.Key, '/')+1:]
		path := strings.TrimSuffix(r.Path+"/"+strings.TrimSuffix(d.Key, key), "/")
		switch {
		case d.Kind == "agent":
			var in struct{ Model string }
			_ = json.Unmarshal(d.Input, &in) // as far as it says
			if s.outside[path] = strings.HasPrefix(in.Model, acp.Prefix); !strings.Contains(path, "/") {
				s.lead = path
			}
		case d.Kind == "model" && strings.HasPrefix(key, "turn-"):
			if s.turns[path]++; !strings.Contains(path, "/") {
				s.leads++
			}
		}
	}
}
