package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
)

const canary = "sk-canary-1234567890"

// against returns a model of the server at base, with the options changed by edit.
func against(t *testing.T, base string, edit func(*Options)) *Model {
	t.Helper()
	rt := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(rt.CloseIdleConnections)
	o := &Options{Model: "m", APIKey: canary, BaseURL: base, HTTPClient: &http.Client{Transport: rt}, Backoff: time.Millisecond, Jitter: func() float64 { return 0 }}
	if edit != nil {
		edit(o)
	}
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// fails runs a turn and checks that its error says want and does not say the key.
func fails(t *testing.T, m *Model, want string) *model.Error {
	t.Helper()
	_, err := model.Collect(m.Generate(t.Context(), modeltest.Ask()), nil)
	e, ok := err.(*model.Error)
	if !ok || !strings.Contains(err.Error(), want) {
		t.Fatalf("got the error %v, want one with %q", err, want)
	}
	if all := fmt.Sprintf("%v %+v %#v %q", err, e, e, e.Err); strings.Contains(all, canary) {
		t.Errorf("the key is in %s", all)
	}
	return e
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		opts *Options
		want string
	}{
		{nil, "openai: no model name; set Options.Model"},
		{&Options{Model: "m", BaseURL: "localhost:11434/v1"}, "not an http or https address"},
		{&Options{Model: "m", BaseURL: "/v1"}, "not an http or https address"},
		{&Options{Model: "m", BaseURL: "http://u:" + canary + "@h/v1"}, "holds a user or password"},
		{&Options{Model: "m", BaseURL: "http://h/v1?key=" + canary}, "must not have a query"},
		{&Options{Model: "m", BaseURL: "http://h/%zz" + canary}, "cannot be parsed"},
		{&Options{Model: "m", APIKey: "sk\n" + canary}, "check OPENAI_API_KEY"},
	} {
		_, err := New(c.opts)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), canary) {
			t.Errorf("got %v, want an error with %q and without the key", err, c.want)
		}
	}
}

func TestKeyIsNotPrinted(t *testing.T) {
	o := Options{Model: "m", APIKey: canary}
	m, err := New(&o)
	if err != nil {
		t.Fatal(err)
	}
	modeltest.PrintsNoKey(t, canary, o, &o, m, *m)
}

func TestServerEchoesKey(t *testing.T) {
	for _, body := range []string{`{"error":{"message":"no such key: %s"}}`, `%s`, `{"detail":["%s is bad"]}`, `<html>%s</html>`, strings.Repeat("x", 490) + "%s"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, body, canary)
		}))
		fails(t, against(t, s.URL, nil), "check the API key in OPENAI_API_KEY")
		s.Close()
	}
}

func TestRedirects(t *testing.T) {
	var seen []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away/chat/completions":
			http.Redirect(w, r, elsewhere.URL+"/v1?key="+r.Header.Get("Authorization"), http.StatusTemporaryRedirect)
		case "/moved/chat/completions":
			http.Redirect(w, r, "/v1/chat/completions", http.StatusMovedPermanently)
		case "/here/chat/completions":
			http.Redirect(w, r, "/v1/chat/completions", http.StatusPermanentRedirect)
		default:
			if body, err := io.ReadAll(r.Body); err != nil || !bytes.Contains(body, []byte(`"temperature":0`)) || r.Header.Get("Authorization") != "Bearer "+canary {
				t.Errorf("after the redirect: %s, %v, %v", body, r.Header, err)
			}
			fmt.Fprint(w, endStop)
		}
	}))
	defer s.Close()
	fails(t, against(t, s.URL+"/away", nil), "a redirect to "+elsewhere.URL+"/v1, which is not followed")
	fails(t, against(t, s.URL+"/moved", nil), "correct the base URL")
	if len(seen) > 0 {
		t.Errorf("the other host was asked with %q", seen)
	}
	zero := 0.0
	req := modeltest.Ask()
	req.Temperature = &zero
	if _, err := model.Collect(against(t, s.URL+"/here", nil).Generate(t.Context(), req), nil); err != nil {
		t.Error(err)
	}
}

func TestWrongServers(t *testing.T) {
	for _, c := range []struct{ header, value, body, want string }{
		{"Content-Type", "text/html; charset=utf-8", "<html>", "a web page and not a stream; check the base URL"},
		{"Content-Encoding", "br", "xxx", `compressed with "br"`},
		{"Content-Type", "application/json", `{"choices":[]}`, "ended before the model was done"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(c.header, c.value)
			fmt.Fprint(w, c.body)
		}))
		fails(t, against(t, s.URL, func(o *Options) { o.Retries = -1 }), c.want)
		s.Close()
	}
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	base := "http://" + gone.Addr().String() + "/v1"
	e := fails(t, against(t, base, nil), "cannot reach "+base+": ")
	if !strings.HasSuffix(e.Error(), "connection refused; is the server running?") || !e.Temporary || e.Code != model.CodeConnect {
		t.Errorf("got %v", e)
	}
}

func TestMaxBytes(t *testing.T) {
	reply := modeltest.Reply{Parts: modeltest.Text(strings.Repeat("x", 1000)).Parts, Fault: modeltest.Infinite, At: 1}
	s := modeltest.NewServer(t, modeltest.Sequence(reply), nil)
	e := fails(t, against(t, s.URL, func(o *Options) { o.MaxBytes = 1 << 20 }), "raise Options.MaxBytes")
	if e.Code != model.CodeTooLarge || e.Temporary {
		t.Errorf("got %#v", e)
	}
	e = fails(t, against(t, s.URL, nil), "the turn says more than 2 MiB")
	if e.Code != model.CodeTooLarge || e.Temporary {
		t.Errorf("got %#v", e)
	}
}

// TestRelax checks that fields a server does not know are left out after it said so.
func TestRelax(t *testing.T) {
	var fields []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent := map[string]json.RawMessage{}
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			t.Error(err)
		}
		for _, f := range []string{"stream_options", "tool_choice"} {
			if sent[f] != nil {
				fields = append(fields, f)
				w.WriteHeader(http.StatusUnprocessableEntity)
				fmt.Fprintf(w, `{"detail":[{"loc":["body"],"msg":"x"},{}],"message":"extra field %s"}`, f)
				return
			}
		}
		fields = append(fields, string(sent["tools"]))
		fmt.Fprint(w, endStop)
	}))
	defer s.Close()
	req := modeltest.Ask()
	req.Tools, req.Choice = []model.ToolSpec{{Name: "a"}, {Name: "b"}}, "b"
	if _, err := model.Collect(against(t, s.URL, nil).Generate(t.Context(), req), nil); err != nil {
		t.Fatal(err)
	}
	if len(fields) != 3 || fields[0] != "stream_options" || fields[1] != "tool_choice" || strings.Contains(fields[2], `"a"`) || !strings.Contains(fields[2], `"b"`) {
		t.Errorf("the server was sent %q", fields)
	}
}

func TestBadRequests(t *testing.T) {
	modeltest.RefusesRequests(t, func(rt http.RoundTripper) model.Model { return newModel(t, rt) })
}
