package runlog

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Queue describes what a queued run needs of the worker that takes it. The zero value needs nothing.
type Queue struct {
	Place     []string  `json:"place,omitempty"`     // labels that a worker must have, all of them
	Priority  int       `json:"priority,omitempty"`  // higher ones are taken first
	Key       string    `json:"key,omitempty"`       // of runs that must not all execute at once, "" for none
	Limit     int       `json:"limit,omitempty"`     // how many runs of that key execute at once; 0 with a key means 1
	NotBefore time.Time `json:"not_before,omitzero"` // workers do not take it before
}

// The limits of a Queue keep it small enough for listings.
const (
	maxPlace = 8
	maxLabel = 32
	maxKey   = 100
)

// Check returns an error for a queue that cannot be stored or that no worker could match.
func (q *Queue) Check() error {
	if len(q.Place) > maxPlace {
		return fmt.Errorf("a run has %d labels of a place, at most %d are allowed", len(q.Place), maxPlace)
	}
	for _, label := range q.Place {
		if len(label) > maxLabel || CheckID(label) != nil {
			return fmt.Errorf("a place has the label %.70q: use 1 to %d of a-z, 0-9 and -", label, maxLabel)
		}
	}
	switch {
	case len(q.Key) > maxKey || strings.ToValidUTF8(q.Key, "") != q.Key:
		return fmt.Errorf("the key %.70q is too long or no text: use at most %d bytes", q.Key, maxKey)
	case q.Limit < 0 || q.Limit > 0 && q.Key == "":
		return fmt.Errorf("a limit of %d runs needs a key, and must be positive", q.Limit)
	}
	return nil
}

// Queue returns what a run that began queued needs, nil for any other run and for an encrypted one whose key is missing. It stays the same when a
// worker executes the run, except for NotBefore.
func (i *Info) Queue() *Queue {
	var s struct{ Queue *Queue }
	if i.Summary == "" || json.Unmarshal([]byte(i.Summary), &s) != nil {
		return nil
	}
	return s.Queue
}
