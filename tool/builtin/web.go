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
	"slices"
	"strconv"
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

// A Searcher asks one search service. A new service needs nothing but this.
type Searcher interface {
	// Search gives the results that fit best, best first, at most q.Max of them. It is called from several
	// goroutines. Errors say what to do and hold no key.
	Search(ctx context.Context, q SearchQuery) ([]SearchResult, error)
}

// A SearchQuery is what is looked for.
type SearchQuery struct {
	Text string // not empty
	Max  int    // results, from 1 to 20
	News bool   // rather than pages of any kind
}

// A SearchResult is a page that was found.
type SearchResult struct{ URL, Title, Content string }

// WebSearch returns the tool "web_search", which asks a search service. Its output is, per
// result, a line "## url", its title and its content.
func WebSearch(s Searcher) (*tool.Tool, error) { return searchTool("web_search", s) }

// SearchWeb returns the tool "search_web": WebSearch with Tavily under the name that the research workflow uses.
func SearchWeb(opts WebOptions) (*tool.Tool, error) {
	s, err := Tavily(opts)
	if err != nil {
		return nil, err
	}
	return searchTool("search_web", s)
}

type webArgs struct {
	Query      string `json:"query" jsonschema:"what to search for"`
	MaxResults int    `json:"max_results,omitempty" jsonschema:"how many results to return, from 1 to 20; defaults to 5"`
	Topic      string `json:"topic,omitempty" jsonschema:"general, which is the default, or news"`
}

func searchTool(name string, s Searcher) (*tool.Tool, error) {
	if s == nil {
		return nil, fmt.Errorf("%s: no search service; give one, such as that of Tavily, Brave or SearXNG", name)
	}
	search := func(ctx context.Context, in webArgs) (string, error) {
		if strings.TrimSpace(in.Query) == "" {
			return "", errors.New("query: is empty; say what to search for")
		}
		q := SearchQuery{Text: in.Query, Max: cmp.Or(in.MaxResults, 5), News: in.Topic == "news"}
		list, err := s.Search(ctx, q)
		if err != nil {
			return "", err
		}
		return formatResults(q, list), nil
	}
	return tool.New(name, "Search the web. The output is, for each result, a line \"## url\", its title and an extract of its text.", search,
		&tool.Options{Effect: tool.Pure, Adjust: func(s *jsonschema.Schema) {
			s.Properties["topic"].Enum = []any{"general", "news"}
			s.Properties["max_results"].Minimum = jsonschema.Ptr(1.0)
			s.Properties["max_results"].Maximum = jsonschema.Ptr(float64(webMost))
		}})
}

func formatResults(q SearchQuery, list []SearchResult) string {
	if len(list) == 0 {
		return fmt.Sprintf("no results for %q; try other words", q.Text)
	}
	var out strings.Builder
	for _, r := range list[:min(len(list), q.Max)] {
		content := strings.TrimSpace(r.Content)
		if len(content) > webContent {
			content = strings.ToValidUTF8(content[:webContent], "") + "…"
		}
		// No line of a page may pass for the header of another result.
		content = strings.ReplaceAll("\n"+content, "\n##", "\n ##")
		fmt.Fprintf(&out, "## %s\n%s%s\n\n", oneLine(r.URL), strings.TrimLeft(oneLine(r.Title), "#"), content)
	}
	return out.String()
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// WebOptions say how a search service is reached. The base URL is the user's choice and may be on
// the own network.
type WebOptions struct {
	APIKey     string        // required, but for SearXNG
	BaseURL    string        // Defaults to that of the service; required for SearXNG
	HTTPClient *http.Client  // Defaults to http.DefaultClient; it is copied, and redirects to other hosts are refused
	Timeout    time.Duration // of a search. Defaults to 30 s
}

// Tavily searches with the service of tavily.com.
func Tavily(opts WebOptions) (Searcher, error) {
	w, err := newWeb(opts, "https://api.tavily.com", "https://tavily.com")
	if err != nil {
		return nil, err
	}
	return tavily{w}, nil
}

// Brave searches with the service of search.brave.com.
func Brave(opts WebOptions) (Searcher, error) {
	w, err := newWeb(opts, "https://api.search.brave.com", "https://brave.com/search/api")
	if err != nil {
		return nil, err
	}
	return brave{w}, nil
}

// SearXNG searches with a SearXNG server, whose settings must allow the format "json". It needs no key.
func SearXNG(opts WebOptions) (Searcher, error) {
	if opts.BaseURL == "" {
		return nil, errors.New("web_search: no base URL of a SearXNG server, such as http://localhost:8888")
	}
	w, err := newWeb(opts, opts.BaseURL, "")
	if err != nil {
		return nil, err
	}
	return searxng{w}, nil
}

type (
	tavily  struct{ web }
	brave   struct{ web }
	searxng struct{ web }
)

func (t tavily) Search(ctx context.Context, q SearchQuery) ([]SearchResult, error) {
	topic := "general"
	if q.News {
		topic = "news"
	}
	body, err := json.Marshal(map[string]any{"query": q.Text, "max_results": q.Max, "topic": topic})
	if err != nil {
		return nil, err
	}
	var list struct {
		Results []struct{ Title, URL, Content string }
	}
	header := http.Header{"Authorization": {"Bearer " + t.key}, "Content-Type": {"application/json"}}
	if err := t.ask(ctx, http.MethodPost, t.base.JoinPath("search"), header, body, &list); err != nil {
		return nil, err
	}
	var out []SearchResult
	for _, r := range list.Results {
		out = append(out, t.result(r.URL, r.Title, r.Content))
	}
	return out, nil
}

func (b brave) Search(ctx context.Context, q SearchQuery) ([]SearchResult, error) {
	type results struct {
		Results []struct{ Title, URL, Description string }
	}
	var list struct {
		Web results // of pages
		results
	}
	u := b.base.JoinPath("res", "v1", "web", "search")
	if q.News {
		u = b.base.JoinPath("res", "v1", "news", "search")
	}
	u.RawQuery = url.Values{"q": {q.Text}, "count": {strconv.Itoa(q.Max)}, "text_decorations": {"false"}}.Encode()
	if err := b.ask(ctx, http.MethodGet, u, http.Header{"X-Subscription-Token": {b.key}, "Accept": {"application/json"}}, nil, &list); err != nil {
		return nil, err
	}
	var out []SearchResult
	for _, r := range slices.Concat(list.Web.Results, list.Results) {
		out = append(out, b.result(r.URL, r.Title, r.Description))
	}
	return out, nil
}

func (s searxng) Search(ctx context.Context, q SearchQuery) ([]SearchResult, error) {
	category := "general"
	if q.News {
		category = "news"
	}
	var list struct {
		Results []struct{ Title, URL, Content string }
	}
	u := s.base.JoinPath("search")
	u.RawQuery = url.Values{"q": {q.Text}, "format": {"json"}, "categories": {category}}.Encode()
	header := http.Header{"Accept": {"application/json"}}
	if s.key != "" {
		header.Set("Authorization", "Bearer "+s.key)
	}
	if err := s.ask(ctx, http.MethodGet, u, header, nil, &list); err != nil {
		return nil, err
	}
	var out []SearchResult
	for _, r := range list.Results {
		out = append(out, s.result(r.URL, r.Title, r.Content))
	}
	return out, nil
}

// web is how to reach a search service.
type web struct {
	client  *http.Client
	base    *url.URL
	host    string
	key     string
	timeout time.Duration
}

// String keeps the key out of what is printed.
func (w web) String() string { return "search " + w.host }

func newWeb(opts WebOptions, service, signup string) (web, error) {
	if opts.APIKey == "" && signup != "" {
		return web{}, fmt.Errorf("web_search: no API key; get one at %s", signup)
	}
	base, err := url.Parse(cmp.Or(opts.BaseURL, service))
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return web{}, fmt.Errorf("web_search: base URL %q: want one such as %s", opts.BaseURL, service)
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
	return web{client: &client, base: base, host: base.Host, key: opts.APIKey, timeout: cmp.Or(opts.Timeout, 30*time.Second)}, nil
}

// ask sends a request and reads its answer, which is JSON.
func (w web) ask(ctx context.Context, method string, u *url.URL, header http.Header, body []byte, into any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, w.timeout, fmt.Errorf("no answer within %v", w.timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return w.failed(ctx, err)
	}
	req.Header = header
	resp, err := w.client.Do(req)
	if err != nil {
		return w.failed(ctx, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, webBody+1))
	if err != nil {
		return w.failed(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		return w.refused(resp, answer)
	}
	if len(answer) > webBody {
		return fmt.Errorf("search %s: the answer is over 1 MiB; ask for fewer results", w.host)
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return w.redact(fmt.Errorf("search %s: the answer is not the JSON it should be: %w; check the base URL", w.host, err))
	}
	return nil
}

// result is a result without the key, wherever it came from.
func (w web) result(u, title, content string) SearchResult {
	return SearchResult{w.hide(u), w.hide(title), w.hide(content)}
}

func (w web) hide(s string) string {
	if w.key == "" {
		return s
	}
	return strings.ReplaceAll(s, w.key, "[key]")
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
	if text := w.hide(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}
