package archive_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/archive"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
)

// A file that takes the ID of the mailbox of a run answers none of its questions.
func TestMailboxIsNoRun(t *testing.T) {
	t.Parallel()
	store := runlog.NewMemory(nil)
	e := engine(t, store)
	id := paused(t, e)
	answer, err := json.Marshal(map[string]any{"id": "a", "data": runlog.Answer{Key: "q", Value: json.RawMessage(`"yes"`), By: "person"}})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().UTC().Format(time.RFC3339Nano)
	file := fmt.Sprintf(`{"superstep":"run","version":1,"run":{"id":%q,"workflow":"w","status":"paused","created":%q,"updated":%q}}`+"\n"+
		`{"seq":1,"epoch":1,"time":%q,"kind":"run.started","data":{"workflow":"w"}}`+"\n"+
		`{"seq":2,"epoch":1,"time":%q,"kind":"answer.requested","path":"ask","data":%s}`+"\n", unlisted.RequestsID(id), at, at, at, at, answer)
	if _, err := archive.Import(t.Context(), store, bytes.NewReader(summed([]byte(file))), nil); err == nil {
		t.Error("it is imported")
	}
	r, err := e.Resume(t.Context(), id, nil)
	if err != nil {
		t.Fatal(err)
	}
	wait(t, r, runlog.Paused)
	if _, err := e.Start(t.Context(), "job", json.RawMessage(`{"task":"x"}`), &superstep.StartOptions{ID: unlisted.RequestsID(id)}); err == nil {
		t.Error("a run has that ID")
	}
}
