package runlog_test

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/runlog"
)

// The encoding by hand is that of encoding/json, to the byte.
func TestTaskDoneAppendIsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := func(name string) json.RawMessage {
			if rapid.Bool().Draw(t, name+" is empty") {
				return nil
			}
			b, err := json.Marshal(rapid.MapOf(rapid.String(), rapid.Int()).Draw(t, name))
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		d := runlog.TaskDone{
			Node: rapid.String().Draw(t, "node"), Key: rapid.String().Draw(t, "key"), Step: rapid.Int().Draw(t, "step"),
			Update: raw("update"), Vote: rapid.SampledFrom([]string{"", "stay"}).Draw(t, "vote"), Error: rapid.String().Draw(t, "error"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "sends") {
			d.Sends = append(d.Sends, runlog.TaskSend{To: rapid.String().Draw(t, "to"), Key: rapid.String().Draw(t, "send key"), Arg: raw("arg")})
		}
		want, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.Append(nil); err != nil || string(got) != string(want) {
			t.Fatalf("%s (%v), want %s", got, err, want)
		}
	})
}
