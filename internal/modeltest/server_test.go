package modeltest_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/internal/modeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestServer checks what clients that are not ours see.
func TestServer(t *testing.T) {
	s := modeltest.NewServer(t, func(r *modeltest.ParsedRequest) modeltest.Reply {
		if r.Attempt == 1 {
			return modeltest.Failure(429, "3")
		}
		return modeltest.Text("hi " + r.Messages[0].Text())
	}, &modeltest.Options{Addr: ":0"})
	if u, err := url.Parse(s.URL); err != nil || u.Hostname() != "127.0.0.1" {
		t.Fatalf("the URL is %s", s.URL)
	} else if u.Host = net.JoinHostPort("localhost", u.Port()); !strings.HasPrefix(post(t, u.String(), "other", "x"), "429 3 ") {
		t.Error("the server does not answer on other addresses")
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			key := fmt.Sprint("key-", i)
			if got := post(t, s.URL, key, "you"); !strings.HasPrefix(got, "429 3 {") {
				t.Errorf("first: %s", got)
			}
			if got := post(t, s.URL, key, "you"); !strings.Contains(got, `"content":"hi you"`) || !strings.HasSuffix(got, "data: [DONE]\n\n") {
				t.Errorf("second: %s", got)
			}
		})
	}
	wg.Wait()
	if n := len(s.Requests()); n != 17 {
		t.Errorf("%d requests are recorded, want 17", n)
	}
	if asked := s.Asked(); asked["key-3"] != 2 || asked["other"] != 1 || len(asked) != 9 {
		t.Errorf("the keys were asked for %v", asked)
	}
}

func post(t *testing.T, base, key, say string) string {
	body := fmt.Sprintf(`{"model":"m","stream":true,"messages":[{"role":"user","content":%q}]}`, say)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return ""
	}
	req.Header.Set("Idempotency-Key", key)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return fmt.Sprintf("%d %s %s", resp.StatusCode, resp.Header.Get("Retry-After"), raw)
}

func TestServerIsStrict(t *testing.T) {
	wire := modeltest.OpenAI{}
	call := `{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]}`
	for want, messages := range map[string]string{
		"content is required": `{"role":"user","content":""}`,
		"answers no call":     `{"role":"tool","tool_call_id":"1","content":"x"}`,
		"have no result":      call,
		"1 tool calls have":   call + `,{"role":"user","content":"x"}`,
		"unknown role":        `{"role":"robot","content":"x"}`,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://h/v1/chat/completions", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := wire.Parse(r, []byte(`{"model":"m","stream":true,"messages":[`+messages+`]}`)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestGeminiIsStrict(t *testing.T) {
	wire := modeltest.Gemini{}
	call := `{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]}`
	answer := `{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"x"}}}]}`
	for _, c := range []struct{ url, contents, want string }{
		{"", call + "," + answer, ""},
		{"http://h/v1beta/models/m:streamGenerateContent?alt=sse&key=x", call, "unknown endpoint"},
		{"http://h/v1beta/models/m:generateContent?alt=sse", call, "unknown endpoint"},
		{"", "", "contents is not specified"},
		{"", `{"role":"assistant","parts":[{"text":"x"}]}`, "please use a valid role"},
		{"", `{"role":"user","parts":[]}`, "parts must not be empty"},
		{"", `{"role":"user","parts":[{}]}`, "required oneof field"},
		{"", call, "have no response"},
		{"", answer, "answers no call"},
		{"", call + `,{"role":"user","parts":[{"text":"x"}]}`, "the number of function response parts"},
		{"", call + `,{"role":"user","parts":[{"functionResponse":{"name":"g","response":{"output":"x"}}}]}`, `the response of "g" answers no call`},
	} {
		if c.url == "" {
			c.url = "http://h/v1beta/models/m:streamGenerateContent?alt=sse"
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = wire.Parse(r, []byte(`{"contents":[`+c.contents+`]}`))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
