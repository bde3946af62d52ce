package acpserve

import (
	"context"
	"encoding/json"
	"io"
	"testing"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/hosttest"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// here is a folder whose runs execute in this process.
type here struct {
	Folder
	engine *superstep.Engine
}

func (h here) Start(_ context.Context, s *tui.Start) (string, error) {
	_, err := h.engine.Resume(context.Background(), s.Run, nil)
	return s.Run, err
}

// An answer in an editor resumes a run by the rule that all faces have.
func TestAnswerRule(t *testing.T) {
	t.Parallel()
	store := runlog.NewMemory(nil)
	e, err := superstep.New(store, &superstep.Options{Workflows: workflow.Set{hosttest.Asks(t)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	ctx, stop := context.WithCancel(context.Background())
	in, feed := io.Pipe()
	s := &server{ctx: ctx, engine: e, sessions: map[string]*session{}, folders: map[string]Folder{}}
	s.opt.Open = func(string) (Folder, error) { return here{engine: e}, nil }
	s.conn = sdk.NewConnection(s.handle, io.Discard, in)
	t.Cleanup(func() {
		stop()
		_ = feed.Close()
		<-s.conn.Done()
	})
	hosttest.Answers(t, store, "", func(run string, q *runlog.Question, value string) error {
		x, err := s.open(run, t.TempDir())
		if err != nil {
			return err
		}
		text, _ := json.Marshal(value)
		_, err = x.view(run).answer(t.Context(), &turn{}, q.Path, &runlog.Answer{Key: q.Key, Value: text, By: "person"})
		return err
	})
}
