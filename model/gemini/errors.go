package gemini

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/wire"
)

// details holds the service's details of a failure, besides its message.
type details struct {
	RetryAfter time.Duration // of a google.rpc.RetryInfo
	Reason     string        // of a google.rpc.ErrorInfo
}

// readDetails reads {"error": {"details": […]}}, or a list of such objects.
func readDetails(body []byte) details {
	type document struct {
		Error struct {
			Details []struct {
				Delay  string `json:"retryDelay"`
				Reason string `json:"reason"`
			} `json:"details"`
		} `json:"error"`
	}
	var one document
	var list []document
	if json.Unmarshal(body, &one) != nil && json.Unmarshal(body, &list) == nil && len(list) > 0 {
		one = list[0]
	}
	var d details
	for _, detail := range one.Error.Details {
		if wait, err := time.ParseDuration(detail.Delay); err == nil && wait > 0 {
			d.RetryAfter = min(wait, 365*24*time.Hour)
		}
		if detail.Reason != "" {
			d.Reason = detail.Reason
		}
	}
	return d
}

// refine completes the error of a status.
func refine(e *model.Error, body []byte) {
	d := readDetails(body)
	e.RetryAfter = max(e.RetryAfter, d.RetryAfter)
	if d.Reason == "API_KEY_INVALID" || d.Reason == "API_KEY_EXPIRED" {
		e.Status = http.StatusUnauthorized // which it says of keys that are missing, but not of wrong ones
	}
}

// problem reads an error that the server sent instead of the rest of a stream.
func problem(body []byte) *wire.Problem {
	p := wire.ReadProblem(body)
	p.RetryAfter = max(p.RetryAfter, readDetails(body).RetryAfter)
	return p
}
