package recipe

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// elsewhere maps the field names of other systems, in lower case and without - and _, to fields of
// recipes. The first field that the current map may have is meant.
var elsewhere = map[string][]string{
	"if": {"when", "until"}, "onlyif": {"when"}, "condition": {"when", "until"}, "where": {"when"},
	"exitwhen": {"until"}, "stopwhen": {"until"}, "stopif": {"until"}, "breakif": {"until"}, "exitcondition": {"until"},
	"needs": {"depends_on"}, "need": {"depends_on"}, "after": {"depends_on"}, "depends": {"depends_on"}, "dependson": {"depends_on"},
	"dependencies": {"depends_on"}, "requires": {"depends_on"}, "runafter": {"depends_on"}, "waitfor": {"depends_on"},
	"agent": {"subagent"}, "agentname": {"subagent"}, "agenttype": {"subagent"}, "subagenttype": {"subagent"}, "role": {"subagent"},
	"task": {"prompt"}, "instructions": {"prompt"}, "instruction": {"prompt"}, "message": {"prompt", "question"}, "text": {"prompt", "question", "message"},
	"prompt": {"question", "message"}, "question": {"ask", "message"},
	"items": {"in"}, "over": {"in"}, "list": {"in"}, "each": {"in"}, "withitems": {"in"}, "values": {"in", "enum"},
	"choices": {"enum", "options"}, "allowed": {"enum"}, "options": {"enum"}, "fields": {"form"},
	"var": {"as"}, "variable": {"as"}, "item": {"as"}, "itemvar": {"as"}, "itemname": {"as"}, "loopvar": {"as"},
	"uses": {"workflow"}, "recipe": {"workflow"}, "flow": {"workflow"}, "call": {"workflow"},
	"function": {"tool"}, "action": {"tool"}, "toolname": {"tool"},
	"with": {"args", "inputs"}, "params": {"args", "inputs"}, "param": {"args", "inputs"}, "parameters": {"args", "inputs"},
	"arguments": {"args", "inputs"}, "arg": {"args", "inputs"}, "args": {"inputs"}, "input": {"args", "inputs"}, "vars": {"args", "inputs"},
	"variables":       {"args", "inputs"},
	"continueonerror": {"on_error"}, "ignoreerrors": {"on_error"}, "allowfailure": {"on_error"}, "onfailure": {"on_error", "on_failure"}, "onfail": {"on_error", "on_failure"},
	"finally": {"always"}, "ensure": {"always"}, "onexit": {"always"}, "cleanup": {"always"}, "catch": {"on_failure"}, "oncancelled": {"on_cancel"},
	"retries": {"retry", "attempts"}, "maxretries": {"retry", "attempts"}, "attempts": {"retry"}, "maxattempts": {"retry", "attempts"},
	"tries":       {"retry", "attempts"},
	"parallelism": {"max_concurrency", "width"}, "concurrency": {"max_concurrency", "width"}, "maxconcurrency": {"width"},
	"maxparallel": {"max_concurrency", "width"},
	"width":       {"max_concurrency"}, "workers": {"max_concurrency", "width"},
	"name": {"id"}, "stepid": {"id"}, "key": {"id", "name"}, "label": {"id", "name"}, "title": {"id", "name"}, "id": {"name"},
	"maxrounds": {"max"}, "rounds": {"max"}, "times": {"max", "attempts"}, "maxiterations": {"max"}, "iterations": {"max"}, "count": {"max", "attempts"},
	"max":    {"attempts"},
	"schema": {"output"}, "outputschema": {"output"}, "jsonschema": {"output"}, "responseformat": {"output"}, "outputs": {"output"},
	"result": {"output"}, "returns": {"output"}, "return": {"output"},
	"do": {"steps"}, "jobs": {"steps"}, "tasks": {"steps"}, "stages": {"steps"}, "nodes": {"steps"}, "branches": {"steps"},
	"desc": {"description"}, "summary": {"description"}, "about": {"description"}, "fallback": {"default"}, "value": {"default"}, "kind": {"type"},
	"timelimit": {"timeout", "time"}, "deadline": {"timeout", "time"}, "timeoutseconds": {"timeout"}, "timeoutminutes": {"timeout"},
	"timeout": {"time"}, "duration": {"timeout", "time"},
	"approval": {"gate"}, "approve": {"gate"}, "confirm": {"gate"}, "interval": {"delay"}, "wait": {"delay"}, "factor": {"backoff"}, "multiplier": {"backoff"},
	"maxtokens": {"tokens"}, "usd": {"cost"}, "dollars": {"cost"}, "maxcost": {"cost"}, "maxturns": {"turns"}, "maxcalls": {"calls"}, "toolcalls": {"calls"},
}

// nowhere lists fields of other systems that recipes do not have, and their alternatives.
var nowhere = map[string]map[string]string{
	"a step": {
		"run": noCommand, "script": noCommand, "command": noCommand, "cmd": noCommand, "shell": noCommand, "bash": noCommand, "exec": noCommand,
		"env": noEnv, "environment": noEnv, "secrets": noEnv,
		"steps": within, "do": within, "body": within,
		"in": ofForeach, "as": ofForeach, "items": ofForeach, "over": ofForeach, "item": ofForeach, "var": ofForeach,
		"max": ofLoop, "until": ofLoop, "while": ofLoop, "times": ofLoop, "maxrounds": ofLoop, "rounds": ofLoop, "repeat": ofLoop,
		"width": widths, "concurrency": widths, "parallelism": widths, "maxconcurrency": widths, "maxparallel": widths, "workers": widths,
		"type": kindOfStep, "kind": kindOfStep, "description": noted, "desc": noted, "summary": noted, "comment": noted, "notes": noted,
	},
	"a recipe": {"env": noEnv, "environment": noEnv, "secrets": noEnv, "run": noCommand, "script": noCommand},
	"`loop`":   {"while": "; there is `until`, with the opposite condition"},
	"an input": {"optional": "; an input is optional unless it says required: true"},
	"a field":  {"optional": "; a field is optional unless it says required: true"},
}

// The alternatives.
const (
	noCommand  = "; a step runs no command itself: a tool or an agent does it"
	noEnv      = "; a recipe sees no environment: what it needs are its inputs"
	within     = "; steps within a step go into `parallel`, `foreach` or `loop`"
	ofForeach  = "; it goes into `foreach`: {in: …, as: …, steps: […]}"
	ofLoop     = "; it goes into `loop`: {max: …, until: …, steps: […]}"
	widths     = "; `width` goes into a container, `max_concurrency` to the top of the recipe"
	kindOfStep = "; a step is what it has: subagent, tool, workflow, ask, value, parallel, foreach or loop"
	noted      = "; say it in a comment: # …"
)

// A fieldMap is a map of known fields during parsing.
type fieldMap struct {
	node   *yaml.Node
	what   string
	fields []field
	keys   map[string]*yaml.Node // those that are known, or stand for one
	has    map[string]bool       // all keys, once they were asked for
}

// unknown reports an unknown key, and suggests the most likely field. If the guess is certain and
// that field is missing, the value is read as the field's, so that the mistake does not cause
// further errors.
func (p *reading) unknown(m *fieldMap, k, v *yaml.Node) {
	say := func(hint string) { p.mark(k, codeField, "%s has no field `%s`%s", m.what, name(k.Value), hint) }
	if cutOff(m.node, v) {
		say(commaHint)
		return
	}
	word := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(k.Value[:min(len(k.Value), 40)]))
	if f := m.meant(word); f != nil {
		if f.name == "on_error" {
			say("; did you mean \"on_error\"? (continue, the default, fail or skip)")
		} else {
			say(fmt.Sprintf("; did you mean %q?", f.name))
		}
		if m.keys[f.name] == nil && !m.has[f.name] {
			m.keys[f.name] = k
			if f.name != "on_error" {
				f.read(v)
			}
		}
		return
	}
	if says := nowhere[m.what][word]; says != "" {
		say(says)
		return
	}
	names := make([]string, len(m.fields))
	for i, f := range m.fields {
		names[i] = f.name
	}
	hint := p.hint(k.Value, names)
	if hint == "" {
		hint = "; known: " + strings.Join(names, ", ")
	}
	say(hint)
}

const commaHint = "; within { } a text that has a comma must be in quotes"

// cutOff reports whether a key within { } has no value. It is then probably the rest of a text that
// was split at a comma.
func cutOff(n, v *yaml.Node) bool {
	return v.Kind == yaml.ScalarNode && v.Value == "" && v.Style == 0 && n.Style&yaml.FlowStyle != 0
}

// meant returns the field that corresponds to a word of another format, or nil if none does.
func (m *fieldMap) meant(word string) *field {
	all := elsewhere[word]
	if len(all) == 0 {
		return nil
	}
	if m.has == nil {
		m.has = make(map[string]bool, len(m.node.Content)/2)
		for i := 0; i+1 < len(m.node.Content); i += 2 {
			m.has[m.node.Content[i].Value] = true
		}
	}
	if len(all) == 2 && all[0] == "args" && (m.has["workflow"] || m.has["uses"]) {
		all = all[1:]
	}
	for _, w := range all {
		if i := slices.IndexFunc(m.fields, func(f field) bool { return f.name == w }); i >= 0 {
			return &m.fields[i]
		}
	}
	return nil
}
