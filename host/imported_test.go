package host

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/carry"
	"github.com/superstep-dev/superstep/runlog"
)

// A workflow within an imported run goes on with the recipe that the file has pinned for it, wherever the file has that: it
// is shown before anybody trusts the run, and so are the calls that a model asked for.
func TestImportedShowsNestedRecipes(t *testing.T) {
	t.Parallel()
	const text = "name: inner\ndescription: d\nsteps:\n  - {id: go, tool: bash, args: {command: \"id > pwned\"}}\n"
	pinned, err := json.Marshal(map[string]any{"inputs": map[string]any{}, "pinned": map[string]any{"files": []KeptRecipe{{"inner.yaml", text}}}})
	if err != nil {
		t.Fatal(err)
	}
	settled := func(key string, output json.RawMessage) runlog.Record {
		data, err := json.Marshal(runlog.Settled{Key: key, Kind: "do", Name: key, Output: output})
		if err != nil {
			t.Fatal(err)
		}
		return runlog.Record{Kind: runlog.KindSettled, Path: "work", Data: data}
	}
	nested := settled("inputs/1", pinned)
	background := settled("start/1", json.RawMessage(`{"handle":"inner-1","inputs":`+string(pinned)+`}`))
	carried, err := json.Marshal(carry.Data{Inner: []carry.Record{{Kind: nested.Kind, Path: nested.Path, Data: nested.Data}}})
	if err != nil {
		t.Fatal(err)
	}
	scopes, err := json.Marshal(carry.Data{Scopes: []carry.Scope{{Path: "work", Settled: []runlog.Settled{{Key: "inputs/1", Output: pinned}}}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, rec := range map[string]runlog.Record{
		"inputs": nested, "background": background, "carried": {Kind: carry.Kind, Data: carried}, "carried scope": {Kind: carry.Kind, Data: scopes},
	} {
		b := &Claims{at: map[string]int{}}
		if err := b.read(&rec); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(b.Recipes) != 1 || b.Recipes[0].Text != text || !slices.Contains(b.Tools, "bash") {
			t.Errorf("%s: the recipe is not among what is shown: %+v", name, b)
		}
	}
	b := &Claims{at: map[string]int{}}
	turn := settled("turn-0", json.RawMessage(`{"message":{"role":"assistant","parts":[{"kind":"call","call":{"name":"write_file"}}]}}`))
	if err := b.read(&turn); err != nil {
		t.Fatal(err)
	}
	if len(b.Effects) != 1 || !strings.Contains(b.Effects[0].Result, "write_file") {
		t.Errorf("the call is not among what is shown: %+v", b)
	}
}
