package runlog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// A Child names the task that waits for a run. The run is a child of the task's run.
type Child struct {
	Parent string `json:"parent"` // the run of the task
	Path   string `json:"path"`   // of the task
	Key    string `json:"key"`    // of its question, see QuestionRun
	Depth  int    `json:"depth"`  // how many runs are above it
}

// An End is the answer to a QuestionRun: how the child run has ended.
type End struct {
	Status  Status          `json:"status"`
	Output  json.RawMessage `json:"output,omitempty"`
	Error   string          `json:"error,omitempty"` // of a run that failed or was cancelled
	Skipped []string        `json:"skipped,omitempty"`
	Spent   *Amount         `json:"spent,omitempty"` // what the run has used, with its own children
}

// ByRun is the author of the answer to a QuestionRun.
const ByRun = "run"

// ByInterruption is the author of the denial of a question whose call was stopped, or did not survive a crash, while it asked.
const ByInterruption = "interruption"

// idDigits is how many digits follow the ID of the root in the ID of a child.
const idDigits = 12

// ID returns the ID of the child run: that of the run at the root of the tree, and a digest of the parent and the question. It is the same after a crash.
func (c *Child) ID() string {
	sum := sha256.Sum256([]byte(c.Parent + "\x00" + c.Path + "\x00" + c.Key))
	root := RootOf(c.Parent, c.Depth > 1)
	if most := 64 - 1 - idDigits; len(root) > most {
		root = strings.TrimRight(root[:most], "-")
	}
	return root + "-" + hex.EncodeToString(sum[:idDigits/2])
}

// RootOf returns the ID with which the IDs of all runs of a tree begin, followed by "-", given the ID of one of them and whether it is a child.
func RootOf(id string, child bool) string {
	if i := len(id) - 1 - idDigits; child && i > 0 {
		return id[:i]
	}
	if most := 64 - 1 - idDigits; len(id) > most {
		id = strings.TrimRight(id[:most], "-")
	}
	return id
}

// IsChild reports whether a task of the run Parent waits for the run. The summary tells it: of an encrypted run whose key is missing, it is not known.
func (i *Info) IsChild() bool {
	var s struct {
		Child bool `json:"child"`
	}
	return i.Parent != "" && strings.Contains(i.Summary, `"child":true`) && json.Unmarshal([]byte(i.Summary), &s) == nil && s.Child
}
