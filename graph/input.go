package graph

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// A SchemaError reports that nothing fit the input of a node.
type SchemaError struct {
	Node     string
	Producer string // the node that was run again, "" if there is none
	Attempts []SchemaAttempt
}

// A SchemaAttempt is an input that did not fit.
type SchemaAttempt struct {
	Input   json.RawMessage
	Problem string
}

func (e *SchemaError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the input of node %s does not fit its schema", e.Node)
	if e.Producer != "" {
		fmt.Fprintf(&b, ", %d times as %s produced it", len(e.Attempts), e.Producer)
	} else {
		b.WriteString("; to have the node run again that produced it, name that in Input.From, or as the only one in Reads")
	}
	for i, a := range e.Attempts {
		fmt.Fprintf(&b, "\n  %d. %s", i+1, a.Problem)
	}
	return b.String()
}

// fits checks an encoded value.
func fits(schema *jsonschema.Resolved, value json.RawMessage) error {
	return strict.Check(schema, value)
}

// fit checks the input of a node, and runs the producing node again while the input does not fit.
// It returns the state with the new update folded in, and that update.
func (x *execution) fit(ctx context.Context, n *node, task *Task, s any) (any, *pregel.Fix[any], error) {
	fail := &SchemaError{Node: n.Name}
	most := 1
	if n.input.from >= 0 {
		fail.Producer = x.flow.nodes[n.input.from].Name
		if most = 3; n.Retry != nil && n.Retry.Attempts > 0 {
			most = n.Retry.Attempts
		}
	}
	k, given := &x.flow.types, s
	var fix *pregel.Fix[any]
	for {
		value, err := n.input.value(k, s)
		if err != nil {
			return s, nil, err
		}
		problem := fits(n.input.schema, value)
		if problem == nil {
			return s, fix, nil
		}
		fail.Attempts = append(fail.Attempts, SchemaAttempt{value, problem.Error()})
		if len(fail.Attempts) == most {
			return s, nil, fail
		}
		u, err := x.again(ctx, n.input.from, task, given, fail.Attempts)
		if err != nil {
			return s, nil, fmt.Errorf("running %s again for a better input: %w", fail.Producer, err)
		}
		s, fix = k.folded(k.apart(given), u), &pregel.Fix[any]{Vertex: n.input.from, Update: u}
	}
}

func (in *checkedInput) value(k *types, s any) (b json.RawMessage, err error) {
	v := k.value(s)
	if in.Of != nil {
		if v, err = in.Of(s); err != nil {
			return nil, err
		}
	}
	b, err = json.Marshal(v)
	if err != nil {
		return nil, unencodable("its input", v, err)
	}
	return b, nil
}

// again runs the node that produced an input once more, as a part of the task that was given the
// input and as an effect of it: a crash does not repeat it. If the run is resumed after the task
// failed for good, the producer is run again.
func (x *execution) again(ctx context.Context, vertex int, task *Task, s any, bad []SchemaAttempt) (any, error) {
	n := &x.flow.nodes[vertex]
	name := fmt.Sprintf("%s~%d", n.Name, len(bad)+1)
	if given := task.scope.GivenUp(); given > 0 {
		name += fmt.Sprintf(".%d", given)
	}
	effect := &journal.Effect{Key: name, Kind: "rerun", Name: n.Name, Inside: true}
	var update any
	made, err := journal.Do(ctx, task.scope, effect, func(ctx context.Context, _ string) (json.RawMessage, error) {
		inner := Task{node: n.Name, attempt: len(bad) + 1, scope: task.scope.Inner(name), uses: n.Uses, opt: task.opt}
		for _, b := range bad {
			inner.feedback = append(inner.feedback, b.Problem)
		}
		u, err := n.parts(ctx, &inner, s)
		if err != nil {
			return nil, err
		}
		return json.Marshal(u)
	})
	if err == nil {
		update, err = x.flow.types.readUpdate(made, false)
	}
	return update, err
}

// cachedWork is the cache entry of a node: its update and the messages that its task sent.
type cachedWork struct {
	Update json.RawMessage   `json:"update"`
	Sends  []runlog.TaskSend `json:"sends,omitempty"`
}

// cached returns the update of a node if it is in the cache, or else the key under which to store
// it. A cache hit is recorded, for replays. A failing cache counts as empty.
func (x *execution) cached(ctx context.Context, n *node, task *Task, s any) (u any, kept string, err error) {
	key, err := x.cacheKey(n, task, s)
	if err != nil {
		return u, "", fmt.Errorf("the key of its cache cannot be encoded: %w", err)
	}
	load := func(ctx context.Context, _ string) (*cachedWork, error) {
		if x.opt.Cache == nil {
			return nil, nil //nolint:nilnil // there is nothing
		}
		had, ok, err := x.opt.Cache.Load(ctx, key)
		var work cachedWork
		if err != nil || !ok || json.Unmarshal(had, &work) != nil {
			return nil, nil //nolint:nilnil // there is nothing
		}
		return &work, nil
	}
	work, err := journal.Do(ctx, task.Scope(), &journal.Effect{Key: "cache", Kind: "cache", Name: n.Name, Hash: key[:24]}, load)
	if err != nil {
		return u, "", err
	}
	if work != nil {
		u, err = x.flow.types.readUpdate(work.Update, false)
	}
	if work == nil || err != nil {
		u, err = x.flow.hooked(ctx, n, task, s)
		return u, key, err
	}
	for _, d := range work.Sends {
		send := Send{To: d.To, Key: d.Key}
		if d.Arg != nil {
			send.Arg = d.Arg
		}
		task.sends = append(task.sends, send)
	}
	return u, "", nil
}

// keep stores the result of a node in the cache, if possible.
func (x *execution) keep(ctx context.Context, key string, n *node, task *Task, u any) {
	if x.opt.Cache == nil {
		return
	}
	update, err := json.Marshal(u)
	if err != nil {
		return
	}
	work := cachedWork{Update: update}
	if task != nil {
		for _, d := range task.sends {
			kept := runlog.TaskSend{To: d.To, Key: d.Key}
			if d.Arg != nil {
				if kept.Arg, err = json.Marshal(d.Arg); err != nil {
					return
				}
			}
			work.Sends = append(work.Sends, kept)
		}
	}
	if b, err := json.Marshal(&work); err == nil {
		_ = x.opt.Cache.Store(ctx, key, b, n.Cache.TTL) // the work is done, kept or not
	}
}

// cacheKey returns a key made from the definition and the input of a node.
func (x *execution) cacheKey(n *node, task *Task, s any) (string, error) {
	of := x.flow.types.value(s)
	if n.Cache.Key != nil {
		of = n.Cache.Key(s)
	}
	var sent []message
	var instance string
	if task != nil {
		sent, instance = task.inbox, task.key
	}
	b, err := json.Marshal([]any{x.flow.name, n.Name, n.Kind, n.Version, instance, of, sent})
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), err
}

// A ConflictError reports that two tasks of one superstep wrote a field that has no reducer.
type ConflictError struct {
	Field string
	Paths [2]string
	Step  int
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s and %s both wrote %s in superstep %d, and it has no reducer; give it a `reduce` tag, or let one of them write it",
		e.Paths[0], e.Paths[1], e.Field, e.Step)
}

// conflicts looks for two writers of one field.
func (f *core) conflicts(tasks []pregel.Task[message], results []result) error {
	if len(tasks) < 2 {
		return nil
	}
	var all uint64
	for i := range results {
		if results[i].Outcome != pregel.Done {
			continue
		}
		set := f.types.written(&results[i])
		if twice := all & set; twice != 0 {
			return f.conflict(tasks, results, i, twice)
		}
		all |= set
	}
	return nil
}

func (f *core) conflict(tasks []pregel.Task[message], results []result, second int, set uint64) error {
	path := func(i int) string { return pregel.Path(f.nodes[tasks[i].Vertex].Name, tasks[i].Key, tasks[i].Visit) }
	set &= -set // the first of them
	first := 0
	for results[first].Outcome != pregel.Done || f.types.written(&results[first])&set == 0 {
		first++
	}
	return &ConflictError{Field: f.types.names(set)[0], Paths: [2]string{path(first), path(second)}, Step: tasks[second].Step}
}

// written returns the fields that a task writes, including its fix of another node's update.
func (k *types) written(r *result) uint64 {
	set := k.writes(r.Update)
	if r.Fix != nil {
		set |= k.writes(r.Fix.Update)
	}
	return set
}
