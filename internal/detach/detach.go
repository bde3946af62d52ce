// Package detach starts a run in a separate process, which keeps running after the terminal or the page that started it is closed.
package detach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Flag is the flag that a user sets. The separate process gets the flag Hidden instead; its value is the file into which that process writes the ID of
// the run once it has begun.
const (
	Flag   = "detach"
	Hidden = "detached"
)

// A Process is a separate process that executes a run.
type Process struct {
	Run string `json:"run"`
	PID int    `json:"pid"`
	Log string `json:"log,omitempty"` // the file with what it prints, "" for none
}

// An EndedError reports that the process ended before the run began.
type EndedError struct {
	Exit   int
	Output string // what it printed
}

func (e *EndedError) Error() string {
	return fmt.Sprintf("the process ended with exit code %d before the run began: %s", e.Exit, e.Output)
}

// Args returns the arguments of the separate process: those of the user, with more flags. None is removed, since it may be the value of another flag.
func Args(given []string, more ...string) []string {
	end := slices.Index(given, "--")
	if end < 0 {
		end = len(given)
	}
	return slices.Concat(given[:end], more, given[end:])
}

// Start starts a command with more arguments and waits until its run has begun. The end of ctx no longer ends it then. Folder returns the folder with the files of a run, in which the process
// writes the file process.log; "" means that there is none. Temp is a folder of the user for files that are only needed until the run has begun.
func Start(ctx context.Context, cmd *exec.Cmd, temp string, folder func(id string) string) (*Process, error) {
	if err := os.MkdirAll(temp, 0o700); err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp(temp, "detach-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	begun := filepath.Join(scratch, "run")
	out, err := os.OpenFile(filepath.Join(scratch, "process.log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	cmd.Args = Args(cmd.Args, "--"+Flag+"=false", "--"+Hidden+"="+begun)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = out, out, session()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{PID: cmd.Process.Pid}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for p.Run == "" {
		select {
		case err := <-ended:
			if id, rerr := os.ReadFile(begun); rerr == nil { // the run was short
				p.Run = string(id)
				break
			}
			printed, _ := io.ReadAll(io.NewSectionReader(out, 0, 64<<10))
			e := &EndedError{Exit: 1, Output: strings.TrimSpace(string(printed))}
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				e.Exit = exit.ExitCode()
			}
			return nil, e
		case <-ctx.Done():
			_ = cmd.Process.Signal(os.Interrupt)
			return nil, context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
			if id, err := os.ReadFile(begun); err == nil {
				p.Run = string(id)
			}
		}
	}
	if files := folder(p.Run); files != "" && os.MkdirAll(files, 0o700) == nil {
		log := filepath.Join(files, "process.log")
		if os.Rename(out.Name(), log) == nil {
			p.Log = log
		}
	}
	return p, nil
}

// Began reports to the starting process that the run has begun. File is the value of the flag Hidden.
func Began(file, id string) error {
	part := file + ".part"
	if err := os.WriteFile(part, []byte(id), 0o600); err != nil {
		return err
	}
	return os.Rename(part, file)
}
