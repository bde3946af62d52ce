package console

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep"
)

// The page of schedules shows the next runs, and pauses, resumes and removes for operators.
func TestSchedules(t *testing.T) {
	s, ts := serve(t, &Options{})
	page := func(token, want string, lacks ...string) {
		t.Helper()
		res, body := send(t, ts, "GET", "/schedules", token, nil)
		if res.StatusCode != 200 || !strings.Contains(body, want) {
			t.Fatalf("it gives %d and lacks %q: %s", res.StatusCode, want, body)
		}
		for _, l := range lacks {
			if strings.Contains(body, l) {
				t.Errorf("it has %q", l)
			}
		}
	}
	page("operator-token", "There are no schedules.")
	_, err := s.engine.AddSchedule(t.Context(), &superstep.Schedule{ID: "nightly", Workflow: "talk", Inputs: json.RawMessage(`{"topic":"tea"}`), Cron: "0 3 * * *",
		Zone: "Asia/Tokyo", Folder: "/home/<b>"})
	if err != nil {
		t.Fatal(err)
	}
	page("operator-token", "03:00 JST", "/home/<b>")
	page("viewer-token", "nightly", "/schedules/nightly/pause")
	post := func(token, verb string, want int) {
		t.Helper()
		if res, body := send(t, ts, "POST", "/schedules/nightly/"+verb, token, nil); res.StatusCode != want {
			t.Fatalf("%s gives %d, want %d: %s", verb, res.StatusCode, want, body)
		}
	}
	post("viewer-token", "pause", 403)
	post("operator-token", "pause", 303)
	page("operator-token", "/schedules/nightly/resume", "03:00 JST")
	post("operator-token", "resume", 303)
	page("operator-token", "03:00 JST")
	post("operator-token", "rm", 303)
	post("operator-token", "rm", 409)
	page("operator-token", "There are no schedules.")
}
