package console

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/runlog"
)

// A program leaves a run to a worker. What no worker takes says so in the list, on its page, in the inbox and to programs, with the command that helps.
func TestQueue(t *testing.T) {
	s, ts := serve(t, &Options{Program: "superstep"})
	post := func(token, body string, want int, text string) (id string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, ts.URL+"/api/v1/runs", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var out struct{ Run, Error string }
		if err := json.NewDecoder(res.Body).Decode(&out); res.StatusCode != want || text != "" && !strings.Contains(out.Error, text) {
			t.Fatalf("%s gives %d, %+v, %v", body, res.StatusCode, out, err)
		}
		return out.Run
	}
	post("viewer-token", `{"workflow":"talk","inputs":{"topic":"tea"},"queue":{}}`, 403, "")
	id := post("operator-token", `{"workflow":"talk","inputs":{"topic":"tea"},"queue":{"place":["gpu"],"priority":4,"key":"k","limit":2}}`, 200, "")
	info, err := s.engine.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if q := info.Queue(); info.Status != runlog.Queued || q == nil || q.Priority != 4 || q.Key != "k" || q.Limit != 2 || q.Place[0] != "gpu" {
		t.Errorf("it is %+v, %+v", info, q)
	}
	for path, want := range map[string]string{
		"/runs":               `title="superstep worker --place gpu">no worker has gpu<`,
		"/runs/" + id:         "Waiting: no worker has gpu. Start one with `superstep worker --place gpu`",
		"/api/v1/runs":        `"next":"worker --place gpu"`,
		"/api/v1/runs/" + id:  `"reason":"no worker has gpu"`,
		"/api/v1/inbox":       `no worker has gpu; start one: superstep worker --place gpu`,
		"/runs?tab=needs-you": `title="superstep worker --place gpu">no worker has gpu<`,
	} {
		if res, body := send(t, ts, "GET", path, "viewer-token", nil); res.StatusCode != 200 || !strings.Contains(body, want) {
			t.Errorf("%s gives %d and lacks %q:\n%s", path, res.StatusCode, want, body)
		}
	}
}
