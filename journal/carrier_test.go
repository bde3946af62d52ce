package journal_test

import (
	"encoding/json"
	"testing"

	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

func TestCarrier(t *testing.T) {
	t.Parallel()
	var c journal.Carrier
	if c.Carried() != nil {
		t.Error("something was carried of nothing")
	}
	for _, r := range []struct {
		kind runlog.Kind
		path string
		data any
	}{
		{runlog.KindSnapshot, "", struct{}{}},
		{runlog.KindIntended, "a", runlog.Intended{Key: "k"}},
		{runlog.KindSettled, "a", runlog.Settled{Key: "k", Output: json.RawMessage(`1`)}},
		{runlog.KindTaskDone, "a", runlog.TaskDone{Node: "a"}},
		{runlog.KindSettled, "b", runlog.Settled{Key: "k", Output: json.RawMessage(`2`)}},
		{runlog.KindIntended, "b", runlog.Intended{Key: "open"}},
		{runlog.KindIntended, "c", runlog.Intended{Key: "open", Once: true}},
		{runlog.KindInner, "d", struct{}{}},
		{runlog.KindEvent, "a", runlog.Event{Name: "granted", Data: json.RawMessage(`{"what":"x"}`)}},
		{runlog.KindEvent, "a", runlog.Event{Name: "other", Data: json.RawMessage(`{"what":"y"}`)}},
	} {
		data, err := json.Marshal(r.data)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Note(&runlog.Record{Kind: r.kind, Path: r.path, Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := json.Marshal(c.Carried())
	want := `{"scopes":[{"path":"b","settled":[{"key":"k","kind":"","output":2}]}],"inner":[{"kind":"snapshot.inner","path":"d","data":{}}],"granted":["x"]}`
	if err != nil || string(got) != want {
		t.Errorf("carried %s, want %s: %v", got, want, err)
	}
	if err := c.Note(&runlog.Record{Kind: runlog.KindSettled, Data: json.RawMessage(`[]`)}); err == nil {
		t.Error("a record that does not fit was taken")
	}
}
