package gemini_test

import (
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/gemini"
	"github.com/superstep-dev/superstep/model/modeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client returns an HTTP client whose connections are gone when the test ends.
func client(t testing.TB) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestSuite(t *testing.T) {
	modeltest.Run(t, func(t *testing.T, script modeltest.Script) model.Model {
		m, err := gemini.New(&gemini.Options{
			Model: "gemini-test", APIKey: "AIza-canary-1234567890",
			BaseURL:    modeltest.NewServer(t, script.Handle, &modeltest.Options{Wire: modeltest.Gemini{}}).URL,
			HTTPClient: client(t), Retries: script.Attempts,
			IdleTimeout: script.Idle, Timeout: script.Timeout,
			Backoff: time.Millisecond, MaxWait: 2 * time.Second,
			Jitter: func() float64 { return 0.5 },
		})
		if err != nil {
			t.Fatal(err)
		}
		return m
	})
}
