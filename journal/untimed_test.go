package journal

import "testing"

// A replay passes over the lengths of time at the end of a record, and over nothing else.
func TestUntimed(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`{"a":1}`:                                 `{"a":1`,
		`{"a":1,"took_ms":5}`:                     `{"a":1`,
		`{"a":1,"took_ms":5,"queued_ms":7}`:       `{"a":1`,
		`{"a":1,"took_ms":5,"next_ms":7}`:         `{"a":1`,
		`{"a":1,"took_ms":5,"first_ms":2}`:        `{"a":1`,
		`{"a":1,"other_ms":5}`:                    `{"a":1,"other_ms":5`,
		`{"a":1,"took_ms":-5}`:                    `{"a":1,"took_ms":-5`,
		`{"a":1,"took_ms":}`:                      `{"a":1,"took_ms":`,
		`{"took_ms":5}`:                           `{"took_ms":5`,
		`{"a":{"b":1,"took_ms":5}}`:               `{"a":{"b":1,"took_ms":5}`,
		`{"a":"x\",\"took_ms\":5"}`:               `{"a":"x\",\"took_ms\":5"`,
		`{"took_ms":5,"a":2}`:                     `{"took_ms":5,"a":2`,
		`{"a":1,"took_ms":5,"b":2,"queued_ms":3}`: `{"a":1,"took_ms":5,"b":2`,
		`[1]`: `[1]`,
		``:    ``,
	} {
		if got, times := untimed([]byte(data)); string(got) != want || string(got)+string(times) != data {
			t.Errorf("%s: %s and %s, want %s", data, got, times, want)
		}
	}
}
