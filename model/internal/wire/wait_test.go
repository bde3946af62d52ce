package wire

import (
	"context"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "", 0}, {"Retry-After", "7", 7 * time.Second}, {"Retry-After", "0.5", time.Second / 2}, {"Retry-After", "-3", 0},
		{"Retry-After", "soon", 0}, {"Retry-After", "NaN", 0}, {"Retry-After", "1e300", 365 * 24 * time.Hour},
		{"Retry-After", now.Add(time.Hour).Format(http.TimeFormat), time.Hour}, {"Retry-After", now.Add(-time.Hour).Format(http.TimeFormat), 0},
		{"Retry-After-Ms", "250", 250 * time.Millisecond},
	} {
		if got := retryAfter(http.Header{c.name: {c.value}}, now); got != c.want {
			t.Errorf("%s: %s is %s, want %s", c.name, c.value, got, c.want)
		}
	}
}

func TestNextWait(t *testing.T) {
	m, err := New(Config{Model: "m", Provider: "p", BaseURL: "http://h", Retries: 20})
	if err != nil {
		t.Fatal(err)
	}
	down := &model.Error{Status: 503, Temporary: true}
	for _, c := range []struct {
		jitter float64
		n      int
		err    *model.Error
		want   time.Duration
		again  bool
	}{
		{0, 1, down, 250 * time.Millisecond, true}, {0.5, 1, down, 375 * time.Millisecond, true}, {0, 2, down, 500 * time.Millisecond, true},
		{0, 10, down, 4 * time.Second, true}, {1, 19, down, 8 * time.Second, true}, {0, 20, down, 0, false},
		{0.5, 1, &model.Error{Temporary: true, RetryAfter: time.Minute}, time.Minute + 250*time.Millisecond, true},
		{0, 1, &model.Error{Temporary: true, RetryAfter: time.Minute + 1}, time.Minute + 1, false},
		{0, 1, &model.Error{Status: 400}, 0, false}, {0, 1, &model.Error{Temporary: true, Code: model.CodeIdle}, 0, false},
	} {
		m.config.Jitter = func() float64 { return c.jitter }
		if wait, again := m.nextWait(c.n, c.err); wait != c.want || again != c.again {
			t.Errorf("attempt %d after %v: got %s, %v; want %s, %v", c.n, c.err, wait, again, c.want, c.again)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if sleep(ctx, time.Minute) {
		t.Error("a sleep longer than the deadline was begun")
	}
}
