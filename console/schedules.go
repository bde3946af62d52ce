package console

import (
	"context"
	"net/http"

	"github.com/superstep-dev/superstep/internal/clean"
)

// schedulesHandler answers GET /schedules.
func (s *server) schedulesHandler(w http.ResponseWriter, r *http.Request) error {
	all, err := s.host.Schedules(r.Context())
	if err != nil {
		return err
	}
	for i := range all {
		all[i].Why = s.clean(all[i].Why)
	}
	s.page(w, r, http.StatusOK, "schedules", map[string]any{"Title": "Schedules", "All": all, "Acts": s.acts(r), "Program": s.opt.Program,
		"Command": s.opt.Program + " schedule list"})
	return nil
}

// changeSchedule answers POST /schedules/{id}/pause, /resume and /rm.
func (s *server) changeSchedule(verb string) act {
	return func(ctx context.Context, r *http.Request) (string, error) {
		id := r.PathValue("id")
		var err error
		if verb == "rm" {
			err = s.engine.RemoveSchedule(ctx, id)
		} else {
			err = s.engine.PauseSchedule(ctx, id, verb == "pause")
		}
		if err != nil {
			return "", refuse(http.StatusConflict, "%s", clean.Text(err.Error()))
		}
		return "/schedules", nil
	}
}
