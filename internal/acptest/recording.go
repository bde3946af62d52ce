package acptest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
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
func ReplayEnv(file string) []string { return []string{replayVariable + "=" + file, quick} }

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
	write := func(sign string, line []byte) {
		kept := strings.NewReplacer(dir, folder, os.Getenv("HOME"), "/the/home").Replace(string(line))
		_, _ = log.WriteString(sign + strings.TrimSpace(kept) + "\n")
	}
	visits := &visits{write: func(sign string, v any) {
		if line, err := json.Marshal(v); err == nil {
			mu.Lock()
			defer mu.Unlock()
			write(sign, line)
		}
	}}
	pass := func(sign string, from io.Reader, to io.Writer) {
		lines := bufio.NewReader(from)
		for {
			line, err := lines.ReadBytes('\n')
			shown := line
			if bytes.Contains(line, []byte(`"mcpServers":[{`)) {
				shown, line = visits.pass(line)
			}
			mu.Lock()
			if kept := short(shown); len(kept) > 0 {
				write(sign, kept)
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
	var server Server
	results := map[int]chan error{}
	for line := range strings.Lines(strings.ReplaceAll(string(b), folder, dir)) {
		if text, is := strings.CutPrefix(line, "T> "); is {
			var v visit
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				return err
			}
			results[v.N] = make(chan error, 1)
			go func() { results[v.N] <- v.repeat(server) }()
			continue
		}
		if text, is := strings.CutPrefix(line, "T< "); is {
			var v visit
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				return err
			}
			if err := <-results[v.N]; err != nil {
				return err
			}
			continue
		}
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
		if got := serverOf(heard); got.URL != "" {
			server = got
		}
		if want.Method != "" {
			ids[string(want.ID)] = got.ID
		}
	}
	_, _ = io.Copy(io.Discard, in)
	return nil
}

// A visit is a request of an agent to its MCP server, as it is recorded.
type visit struct {
	N      int         `json:"n"`
	Method string      `json:"method,omitempty"`
	Header http.Header `json:"header,omitempty"`
	Body   string      `json:"body,omitempty"`
}

// repeat makes the recorded request to a server.
func (v *visit) repeat(s Server) error {
	r, err := http.NewRequest(v.Method, s.URL, strings.NewReader(v.Body))
	if err != nil {
		return err
	}
	r.Header = v.Header
	resp, err := (&http.Client{Transport: s}).Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// visits records what an agent asks of its MCP servers. It stands between them.
type visits struct {
	write func(sign string, v any)
	n     atomic.Int32
}

// pass puts a proxy in the place of the MCP server in a message. It returns the message for the recording, without the token, and that for the agent.
func (vs *visits) pass(line []byte) (shown, passed []byte) {
	s := serverOf(line)
	target, err := url.Parse(s.URL)
	if err != nil || len(s.Headers) == 0 {
		return line, line
	}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // ends with the process
		v := visit{N: int(vs.n.Add(1)), Method: r.Method, Header: http.Header{}}
		body, _ := io.ReadAll(r.Body)
		v.Body = string(body)
		for _, name := range []string{"Accept", "Content-Type", "Mcp-Protocol-Version"} {
			if value := r.Header.Get(name); value != "" {
				v.Header.Set(name, value)
			}
		}
		vs.write("T> ", v)
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
		vs.write("T< ", visit{N: v.N})
	}))
	shown = bytes.ReplaceAll(line, []byte(s.URL), []byte("http://127.0.0.1:1"))
	shown = bytes.ReplaceAll(shown, []byte(s.Headers[0].Value), []byte("Bearer TOKEN"))
	return shown, bytes.ReplaceAll(line, []byte(s.URL), []byte(at.URL))
}

// serverOf returns the MCP server that a message of the client names, the zero value for none.
func serverOf(line []byte) Server {
	var m struct {
		Params struct {
			Servers []Server `json:"mcpServers"`
		} `json:"params"`
	}
	if json.Unmarshal(line, &m) != nil || len(m.Params.Servers) == 0 {
		return Server{}
	}
	return m.Params.Servers[0]
}
