package acptest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// The variables that make a process a recorder of another agent, or the player of a recording.
const (
	recordVariable = "ACPTEST_RECORD"
	replayVariable = "ACPTEST_REPLAY"
)

// folder stands for the working folder in recordings.
const folder = "/the/folder"

// RecordEnv returns the variables that make this test binary run another agent, which its arguments name, and append what is sent to a file.
func RecordEnv(file string) []string { return []string{recordVariable + "=" + file} }

// ReplayEnv returns the variables that make this test binary the agent of a recording.
func ReplayEnv(file string) []string { return []string{replayVariable + "=" + file} }

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// record runs a command between its own input and output.
func record(file string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var mu sync.Mutex
	pass := func(sign string, from io.Reader, to io.Writer) {
		lines := bufio.NewReader(from)
		for {
			line, err := lines.ReadBytes('\n')
			mu.Lock()
			if kept := short(line); len(kept) > 0 {
				_, _ = log.WriteString(sign + strings.NewReplacer(dir, folder, os.Getenv("HOME"), "/the/home").Replace(string(kept)))
			}
			_, _ = to.Write(line)
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}
	go func() {
		pass("> ", os.Stdin, in)
		_ = in.Close()
	}()
	pass("< ", out, os.Stdout)
	return cmd.Wait()
}

// short returns a line without what is of no use here and long: lists of commands, models and settings.
func short(line []byte) []byte {
	for _, kind := range []string{"available_commands_update", "config_option_update", "session_info_update"} {
		if bytes.Contains(line, []byte(kind)) {
			return nil
		}
	}
	var msg struct {
		Result map[string]any `json:"result"`
	}
	var all map[string]any
	if json.Unmarshal(line, &msg) != nil || msg.Result["sessionId"] == nil || json.Unmarshal(line, &all) != nil {
		return line
	}
	delete(msg.Result, "models")
	delete(msg.Result, "configOptions")
	all["result"] = msg.Result
	b, err := json.Marshal(all)
	if err != nil {
		return line
	}
	return append(b, '\n')
}

// replay says what a recorded agent said, each time after what the client said then.
func replay(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	ids := map[string]json.RawMessage{} // of the client, by those in the recording
	for line := range strings.Lines(strings.ReplaceAll(string(b), folder, dir)) {
		said, mine := strings.CutPrefix(line, "< ")
		type message struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if mine {
			var m message
			if err := json.Unmarshal([]byte(said), &m); err != nil {
				return err
			}
			if id, is := ids[string(m.ID)]; is && m.Method == "" {
				said = strings.Replace(said, `"id":`+string(m.ID), `"id":`+string(id), 1)
			}
			if _, err := os.Stdout.WriteString(said); err != nil {
				return err
			}
			continue
		}
		var want, got message
		if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "> ")), &want); err != nil {
			return err
		}
		heard, err := in.ReadBytes('\n')
		if err != nil {
			return nil //nolint:nilerr // the client has ended
		}
		if err := json.Unmarshal(heard, &got); err != nil {
			return err
		}
		if got.Method != want.Method {
			return fmt.Errorf("the client sent %q, and in the recording %q", got.Method, want.Method)
		}
		if want.Method != "" {
			ids[string(want.ID)] = got.ID
		}
	}
	_, _ = io.Copy(io.Discard, in)
	return nil
}
