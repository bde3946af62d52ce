package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/internal/carry"
	"github.com/superstep-dev/superstep/runlog"
)

// names are the strings in a record's data that identify something when a run is resumed: nodes,
// keys, paths and effects. Other fields hold content.
type names struct {
	effect // of the record itself, or its question
	Node   string
	Vote   string
	Fixed  string
	Parent string
	Inside []string
	Sends  []send
	Shape  struct{ Nodes []struct{ Name string } }

	Machine struct{ Frontier, Visits, Completed, Arrived, Kept, Early []vertex } // of a snapshot, without the state

	Scopes []struct {
		Path                             string
		Settled, Intents, Asked, Answers []effect
	}
	Inner []struct {
		Kind runlog.Kind
		Path string
		Data json.RawMessage
	}
}

type effect struct{ Key, Kind, Hash string }

type send struct{ To, Key string }

type vertex struct {
	Vertex, Key, Fixed string
	Sources, Inside    []string
	Sends              []send
	Inbox              []struct{ From string }
}

// identities returns the names in the data of a record.
func identities(kind runlog.Kind, data json.RawMessage) (all []string) {
	var n names
	switch kind {
	case runlog.KindRunStarted, runlog.KindTaskDone, runlog.KindTaskFailed, runlog.KindSnapshot, runlog.KindInner, carry.Kind,
		runlog.KindIntended, runlog.KindSettled, runlog.KindAsked, runlog.KindAnswered:
		_ = json.Unmarshal(data, &n) // as far as it says
	default:
		return nil
	}
	add := func(names ...string) { all = append(all, names...) }
	effects := func(list []effect) {
		for _, e := range list {
			add(e.Key, e.Kind, e.Hash)
		}
	}
	sends := func(list []send) {
		for _, s := range list {
			add(s.To, s.Key)
		}
	}
	add(n.Node, n.Vote, n.Fixed, n.Parent)
	add(n.Inside...)
	effects([]effect{n.effect})
	sends(n.Sends)
	for _, v := range n.Shape.Nodes {
		add(v.Name)
	}
	m := &n.Machine
	for _, v := range slices.Concat(m.Frontier, m.Visits, m.Completed, m.Arrived, m.Kept, m.Early) {
		add(v.Vertex, v.Key, v.Fixed)
		add(v.Sources...)
		add(v.Inside...)
		sends(v.Sends)
		for _, m := range v.Inbox {
			add(m.From)
		}
	}
	for _, s := range n.Scopes {
		add(s.Path)
		effects(slices.Concat(s.Settled, s.Intents, s.Asked, s.Answers))
	}
	for _, c := range n.Inner {
		add(c.Path)
		add(identities(c.Kind, c.Data)...)
	}
	return all
}

// kept are fields that stay unchanged even if they contain a secret: they identify the run's
// workflow.
func kept(kind runlog.Kind) string {
	switch kind {
	case runlog.KindRunStarted:
		return "workflow"
	case runlog.KindSnapshot, runlog.KindInner:
		return "graph"
	}
	return ""
}

// record redacts the data of a record. It refuses a record whose identifying names would change.
// Data without a secret are only scanned.
func (r *Redactor) record(kind runlog.Kind, data json.RawMessage) (json.RawMessage, error) {
	clean := r.JSON(data)
	if bytes.Equal(clean, data) || !json.Valid(data) {
		return clean, nil
	}
	for _, name := range identities(kind, data) {
		if clean := r.Text(name); clean != name {
			return nil, fmt.Errorf("a %s record has a secret in what things are found by: %s; give it another name or key", kind, clean)
		}
	}
	if kind == carry.Kind {
		return r.carried(data, clean)
	}
	return swap(clean, data, kept(kind)), nil
}

// carried does the same for the records that another carries.
func (r *Redactor) carried(data, clean json.RawMessage) (json.RawMessage, error) {
	var c struct{ Inner []carry.Record }
	if json.Unmarshal(data, &c) != nil || len(c.Inner) == 0 {
		return clean, nil
	}
	for i := range c.Inner {
		var err error
		if c.Inner[i].Data, err = r.record(c.Inner[i].Kind, c.Inner[i].Data); err != nil {
			return nil, err
		}
	}
	inner, err := json.Marshal(map[string]any{"inner": c.Inner})
	return swap(clean, inner, "inner"), err
}

// swap sets a field of an object to its value in another object, if both have the field.
func swap(object, other json.RawMessage, field string) json.RawMessage {
	if field == "" {
		return object
	}
	is, want := fieldOf(object, field), fieldOf(other, field)
	if is.to == 0 || want.to == 0 {
		return object
	}
	return bytes.Join([][]byte{object[:is.from], other[want.from:want.to], object[is.to:]}, nil)
}

// A stretch is a range in a text; the zero stretch is nowhere.
type stretch struct{ from, to int }

// fieldOf finds the value of a field of a JSON object.
func fieldOf(data []byte, field string) stretch {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return stretch{}
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return stretch{}
		}
		var v json.RawMessage
		if d.Decode(&v) != nil {
			return stretch{}
		}
		if to := int(d.InputOffset()); t == field {
			return stretch{to - len(v), to}
		}
	}
	return stretch{}
}
