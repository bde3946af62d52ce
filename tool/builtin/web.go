package builtin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/tool"
)

const (
	webBody    = 1 << 20 // bytes of an answer
	webMost    = 20      // results at most
	webContent = 4000    // bytes of a result's content
)

// WebOptions say how SearchWeb reaches the search service.
type WebOptions struct {
	APIKey     string        // of Tavily; required
	BaseURL    string        // Defaults to https://api.tavily.com
	HTTPClient *http.Client  // Defaults to http.DefaultClient; it is copied, and redirects to other hosts are refused
	Timeout    time.Duration // of a search. Defaults to 30 s
}

// SearchWeb returns the tool "search_web", which asks the Tavily search service. Its
// output is, per result, a line "## url", its title and its content.
func SearchWeb(opts WebOptions) (*tool.Tool, error) {
	if opts.APIKey == "" {
		return nil, errors.New("search_web: no API key; get one at https://tavily.com")
	}
	base, err := url.Parse(cmp.Or(opts.BaseURL, "https://api.tavily.com"))
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, fmt.Errorf("search_web: base URL %q: want one such as https://api.tavily.com", opts.BaseURL)
	}
	client := http.Client{}
	if opts.HTTPClient != nil {
		client = *opts.HTTPClient
	}
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if req.URL.Host != base.Host || req.URL.Scheme != base.Scheme || len(via) > 3 {
			return fmt.Errorf("redirected to %s, which is refused", req.URL.Host)
		}
		return nil
	}
	w := web{client: &client, url: base.JoinPath("search").String(), host: base.Host, key: opts.APIKey, timeout: cmp.Or(opts.Timeout, 30*time.Second)}
	return tool.New("search_web", "Search the web. The output is, for each result, a line \"## url\", its title and an extract of its text.", w.search,
		&tool.Options{Effect: tool.Pure, Adjust: func(s *jsonschema.Schema) {
			s.Properties["topic"].Enum = []any{"general", "news"}
			s.Properties["max_results"].Minimum = jsonschema.Ptr(1.0)
			s.Properties["max_results"].Maximum = jsonschema.Ptr(float64(webMost))
		}})
}

type web struct {
	client         *http.Client
	url, host, key string
	timeout        time.Duration
}

type webArgs struct {
	Query      string `json:"query" jsonschema:"what to search for"`
	MaxResults int    `json:"max_results,omitempty" jsonschema:"how many results to return, from 1 to 20; defaults to 5"`
	Topic      string `json:"topic,omitempty" jsonschema:"general, which is the default, or news"`
}

func (w web) search(ctx context.Context, in webArgs) (string, error) {
	if strings.TrimSpace(in.Query) == "" {
		return "", errors.New("query: is empty; say what to search for")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, w.timeout, fmt.Errorf("no answer within %v", w.timeout))
	defer cancel()
	body, err := json.Marshal(map[string]any{
		"query":       in.Query,
		"max_results": cmp.Or(in.MaxResults, 5),
		"topic":       cmp.Or(in.Topic, "general"),
	})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return "", w.failed(ctx, err)
	}
	req.Header.Set("Authorization", "Bearer "+w.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.client.Do(req)
	if err != nil {
		return "", w.failed(ctx, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, webBody+1))
	if err != nil {
		return "", w.failed(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", w.refused(resp, answer)
	}
	if len(answer) > webBody {
		return "", fmt.Errorf("search %s: the answer is over 1 MiB; ask for fewer results", w.host)
	}
	return w.format(in.Query, answer)
}

// failed is the error of a request without an answer.
func (w web) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	return fmt.Errorf("search %s: %w; check the connection and try again", w.host, w.redact(err))
}

// refused is the error of an answer that is not a result.
func (w web) refused(resp *http.Response, answer []byte) error {
	remedy := "try again later"
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		remedy = "check the API key"
	case code == http.StatusTooManyRequests:
		if after := resp.Header.Get("Retry-After"); after != "" {
			remedy = fmt.Sprintf("try again after %.40q seconds", after)
		} else {
			remedy = "too many searches; wait before the next"
		}
	case code == 432 || code == 433:
		remedy = "the plan's limit is used up; raise it or wait for the next period"
	case code == http.StatusBadRequest || code == http.StatusUnprocessableEntity:
		remedy = "change the query"
	case code/100 == 3:
		remedy = "check the base URL"
	}
	detail := strings.TrimSpace(string(answer[:min(len(answer), 300)]))
	if detail != "" {
		detail = ": " + detail
	}
	return w.redact(fmt.Errorf("search %s: status %d%s; %s", w.host, resp.StatusCode, detail, remedy))
}

// redact keeps the key out of an error, wherever it came from.
func (w web) redact(err error) error {
	if strings.Contains(err.Error(), w.key) {
		return errors.New(strings.ReplaceAll(err.Error(), w.key, "[key]"))
	}
	return err
}

func (w web) format(query string, answer []byte) (string, error) {
	var list struct {
		Results []struct{ Title, URL, Content string }
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return "", fmt.Errorf("search %s: the answer is not the JSON it should be: %w; check the base URL", w.host, err)
	}
	if len(list.Results) == 0 {
		return fmt.Sprintf("no results for %q; try other words", query), nil
	}
	var out strings.Builder
	for _, r := range list.Results {
		content := strings.TrimSpace(r.Content)
		if len(content) > webContent {
			content = strings.ToValidUTF8(content[:webContent], "") + "…"
		}
		// No line of a page may pass for the header of another result.
		content = strings.ReplaceAll("\n"+content, "\n##", "\n ##")
		fmt.Fprintf(&out, "## %s\n%s%s\n\n", oneLine(r.URL), strings.TrimLeft(oneLine(r.Title), "#"), content)
	}
	return strings.ReplaceAll(out.String(), w.key, "[key]"), nil
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
