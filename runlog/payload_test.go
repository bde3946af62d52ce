package runlog_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/runlog"
)

// The encoding is that of encoding/json, to the byte.
func TestTaskDoneEncodeIsJSON(t *testing.T) {
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
			d.Sends = append(d.Sends, runlog.TaskSend{To: rapid.String().Draw(t, "to"), Key: rapid.String().Draw(t, "send key"), Arg: raw("arg"), Failed: rapid.Bool().Draw(t, "failed")})
		}
		if rapid.Bool().Draw(t, "fixed") {
			d.Fixed, d.Fix = "f", json.RawMessage(`[1]`)
		}
		d.Caught = rapid.Bool().Draw(t, "caught")
		want, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.Encode(); err != nil || string(got) != string(want) {
			t.Fatalf("%s (%v), want %s", got, err, want)
		}
		var back, parsed runlog.TaskDone
		if err := errors.Join(json.Unmarshal(want, &back), parsed.Parse(want)); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(parsed, back) {
			t.Fatalf("%s\nis parsed as %+v\nwant         %+v", want, parsed, back)
		}
	})
}

// Whatever Encode may have written is parsed as encoding/json has it, and other things do no harm.
func FuzzTaskDoneParse(f *testing.F) {
	for _, s := range []string{
		`{"node":"a","step":1}`, `{"node":"a","step":1,"update":{"a":"}\\\""},"sends":[{"to":"b"}]}`, `{"step":1,"node":"a"}`, `{"node":"a","step":01}`,
		`{"node":"a","step":1,"update":[1,2],"update":3}`, `{"node":"a","key":"k","step":-1}`, `{ "node":"a"}`, `{"node":"a","step":1,"update":`, `null`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want, got runlog.TaskDone
		before := bytes.Clone(data)
		err := got.Parse(data)
		if !bytes.Equal(data, before) {
			t.Fatalf("%q was changed to %q", before, data)
		}
		if json.Unmarshal(data, &want) != nil {
			return
		}
		if ours, _ := want.Encode(); bytes.Equal(ours, data) && (err != nil || !reflect.DeepEqual(got, want)) {
			t.Fatalf("%q is parsed as %+v, %v\nwant %+v", data, got, err, want)
		}
	})
}
