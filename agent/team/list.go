package team

import (
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"github.com/superstep-dev/superstep/runlog"
)

// What the keys of effects of a job begin with.
const (
	queuedPrefix = "queued/"
	jobPrefix    = "job/"
)

// Running is the state of an agent that is running, or queued, or waits for an answer.
const Running = "running"

// A Member is an agent of a team in the log of a run.
type Member struct {
	ID    string // the path of its records; who cancels it names it by this, see CancelAgent of superstep.Engine
	Agent string
	State string // Running, "ended" or "cancelled"
}

// List returns the agents that teams have had work in a run, in the order in which they were queued, from the
// records of the run. Logs of versions that
// did not record the queue have none.
func List(recs iter.Seq2[runlog.Record, error]) ([]Member, error) {
	var out []Member
	places := map[string]int{}
	for r, err := range recs {
		if err != nil {
			return out, err
		}
		if r.Kind != runlog.KindSettled {
			continue
		}
		var d runlog.Settled
		if err := json.Unmarshal(r.Data, &d); err != nil {
			return out, fmt.Errorf("record %d: %w", r.Seq, err)
		}
		if name, ok := strings.CutPrefix(d.Key, queuedPrefix); ok && d.Kind == "note" {
			places[r.Path+"/"+name] = len(out)
			out = append(out, Member{ID: r.Path + "/" + name, Agent: d.Name, State: Running})
		}
		if name, ok := strings.CutPrefix(d.Key, jobPrefix); ok && d.Kind == "job" {
			i, ok := places[r.Path+"/"+name]
			var res Result
			switch {
			case !ok || d.Error != "":
			case json.Unmarshal(d.Output, &res) == nil && res.Error == errCancelled.Error():
				out[i].State = "cancelled"
			default:
				out[i].State = "ended"
			}
		}
	}
	return out, nil
}
