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
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/toolnames"
	"github.com/superstep-dev/superstep/tool"
)

const (
	webBody    = 4 << 20 // bytes of an answer
	webMost    = 20      // results at most
	webContent = 4000    // bytes of a result's extract, and of the service's answer
	webPages   = 40_000  // bytes of the text of all pages of a search
	webKept    = 64      // searches that are kept
)

// A Searcher asks one search service. A new service needs nothing but this.
type Searcher interface {
	// Search returns the results that fit best, best first, at most q.Max of them. It is called from several
	// goroutines. Errors say what to do and hold no key.
	Search(ctx context.Context, q SearchQuery) (SearchFound, error)
}

// A SearchQuery is a query to a search service. A service without Deep search or Pages ignores these fields.
type SearchQuery struct {
	Text  string // not empty
	Max   int    // results, from 1 to 20
	News  bool   // rather than pages of any kind
	Deep  bool   // more thorough, slower and dearer
	Pages bool   // the text of the pages as well
}

// SearchFound holds the results of a search.
type SearchFound struct {
	Answer  string // the service's own answer, "" if it has none
	Results []SearchResult
}

// A SearchResult is a page that was found.
type SearchResult struct {
	URL, Title string
	Content    string // an extract
	Page       string // the text of the page, "" if it was not asked for
}

type webArgs struct {
	Query      string `json:"query" jsonschema:"what to search for"`
	MaxResults int    `json:"max_results,omitempty" jsonschema:"how many results to return, from 1 to 20; defaults to 5"`
	Topic      string `json:"topic,omitempty" jsonschema:"general, which is the default, or news"`
	Depth      string `json:"search_depth,omitempty" jsonschema:"basic, or advanced: more thorough and dearer, where the service has it; defaults to basic, for news to advanced"`
	Raw        bool   `json:"include_raw_content,omitempty" jsonschema:"also return the text of the pages, where the service has it, up to 40,000 bytes in all"`
}

// WebSearch returns the tool "web_search", which asks a search service. Its output is the service's own answer, if it
// has one, and per result a line "## url", its title, its content and, if asked for, the text of the page.
// A query that a run repeats is not sent again: letter case and spaces aside, it returns what the first one found.
func WebSearch(s Searcher) (*tool.Tool, error) {
	const name = "web_search"
	if s == nil {
		return nil, fmt.Errorf("%s: no search service; give one, such as that of Tavily, Brave or SearXNG", name)
	}
	kept := &searches{}
	search := func(ctx context.Context, c *tool.Call, in webArgs) (string, error) {
		if strings.TrimSpace(in.Query) == "" {
			return "", errors.New("query: is empty; say what to search for")
		}
		news := in.Topic == "news"
		q := SearchQuery{
			Text: in.Query, Max: cmp.Or(in.MaxResults, 5), News: news,
			Deep: in.Depth == "advanced" || in.Depth == "" && news, Pages: in.Raw,
		}
		found, err := kept.search(ctx, s, c.Run, q)
		if err != nil {
			return "", err
		}
		if c.Raw && found.Answer == "" && len(found.Results) == 0 {
			return "", nil
		}
		return formatFound(q, found), nil
	}
	return tool.NewRaw(name, "Search the web. The output is the service's own answer, if it has one, and for each result a line \"## url\", "+
		"its title and an extract of its text.", search,
		&tool.Options{Effect: tool.Pure, Adjust: func(s *jsonschema.Schema) {
			s.Properties["topic"].Enum = []any{"general", "news"}
			s.Properties["search_depth"].Enum = []any{"basic", "advanced"}
			s.Properties["max_results"].Minimum = jsonschema.Ptr(1.0)
			s.Properties["max_results"].Maximum = jsonschema.Ptr(float64(webMost))
		}})
}

// searches caches the latest search results of the runs of this process.
type searches struct {
	mu   sync.Mutex
	last []*search
}

type search struct {
	run   string
	query SearchQuery
	turn  chan struct{} // holds one value while nobody searches
	done  bool
	found SearchFound
}

// search asks the service, unless the run has already sent the same query. Outside of a run it always asks.
func (k *searches) search(ctx context.Context, s Searcher, run string, q SearchQuery) (SearchFound, error) {
	if run == "" {
		return s.Search(ctx, q)
	}
	at := k.of(run, q)
	select {
	case <-at.turn:
		defer func() { at.turn <- struct{}{} }()
	case <-ctx.Done():
		return SearchFound{}, context.Cause(ctx)
	}
	if at.done {
		return at.found, nil
	}
	found, err := s.Search(ctx, q)
	at.found, at.done = found, err == nil
	return found, err
}

// of returns the run's search of a query that finds at least as much as q.
func (k *searches) of(run string, q SearchQuery) *search {
	q.Text = strings.ToLower(oneLine(q.Text))
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, x := range k.last {
		y := x.query
		if x.run == run && y.Text == q.Text && y.News == q.News && y.Max >= q.Max && (y.Deep || !q.Deep) && (y.Pages || !q.Pages) {
			return x
		}
	}
	x := &search{run: run, query: q, turn: make(chan struct{}, 1)}
	x.turn <- struct{}{}
	k.last = append(k.last[max(0, len(k.last)+1-webKept):], x)
	return x
}

func formatFound(q SearchQuery, found SearchFound) string {
	var out strings.Builder
	if found.Answer != "" {
		fmt.Fprintf(&out, toolnames.ServiceAnswer+"%s\n\n", block(found.Answer, webContent))
	}
	list := found.Results[:min(len(found.Results), q.Max)]
	if len(list) == 0 {
		fmt.Fprintf(&out, "no results for %q; try other words", q.Text)
	}
	for _, r := range list {
		fmt.Fprintf(&out, "## %s\n%s%s\n\n", oneLine(r.URL), strings.TrimLeft(oneLine(r.Title), "#"), block(r.Content, webContent))
		if q.Pages && r.Page != "" {
			fmt.Fprintf(&out, "The page:%s\n\n", block(r.Page, webPages/len(list)))
		}
	}
	return out.String()
}

// block returns a text on lines of its own, cut at a number of bytes. None of its lines may pass for the header of a result.
func block(text string, most int) string {
	text = strings.TrimSpace(text)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strings.ReplaceAll("\n"+text, "\n##", "\n ##")
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

func (t tavily) Search(ctx context.Context, q SearchQuery) (SearchFound, error) {
	topic, depth := "general", "basic"
	if q.News {
		topic = "news"
	}
	if q.Deep {
		depth = "advanced"
	}
	body, err := json.Marshal(map[string]any{
		"query": q.Text, "max_results": q.Max, "topic": topic, "search_depth": depth, "include_answer": true, "include_raw_content": q.Pages,
	})
	if err != nil {
		return SearchFound{}, err
	}
	var list struct {
		Answer  string
		Results []struct {
			Title, URL, Content string
			Page                string `json:"raw_content"`
		}
	}
	header := http.Header{"Authorization": {"Bearer " + t.key}, "Content-Type": {"application/json"}}
	if err := t.ask(ctx, http.MethodPost, t.base.JoinPath("search"), header, body, &list); err != nil {
		return SearchFound{}, err
	}
	found := SearchFound{Answer: t.hide(list.Answer)}
	for _, r := range list.Results {
		found.Results = append(found.Results, SearchResult{t.hide(r.URL), t.hide(r.Title), t.hide(r.Content), t.hide(r.Page)})
	}
	return found, nil
}

func (b brave) Search(ctx context.Context, q SearchQuery) (SearchFound, error) {
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
		return SearchFound{}, err
	}
	var found SearchFound
	for _, r := range slices.Concat(list.Web.Results, list.Results) {
		found.Results = append(found.Results, SearchResult{URL: b.hide(r.URL), Title: b.hide(r.Title), Content: b.hide(r.Description)})
	}
	return found, nil
}

func (s searxng) Search(ctx context.Context, q SearchQuery) (SearchFound, error) {
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
		return SearchFound{}, err
	}
	var found SearchFound
	for _, r := range list.Results {
		found.Results = append(found.Results, SearchResult{URL: s.hide(r.URL), Title: s.hide(r.Title), Content: s.hide(r.Content)})
	}
	return found, nil
}

// web holds the address and the key of a search service.
type web struct {
	client  *http.Client
	base    *url.URL
	host    string
	key     string
	timeout time.Duration
}

// String omits the key, so that it is never printed.
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
		return fmt.Errorf("search %s: the answer is over 4 MiB; ask for fewer results", w.host)
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return w.redact(fmt.Errorf("search %s: the answer is not the JSON it should be: %w; check the base URL", w.host, err))
	}
	return nil
}

func (w web) hide(s string) string {
	if w.key == "" {
		return s
	}
	return strings.ReplaceAll(s, w.key, "[key]")
}

// failed returns the error of a request without an answer.
func (w web) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	return fmt.Errorf("search %s: %w; check the connection and try again", w.host, w.redact(err))
}

// refused returns the error of an answer that is not a result.
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
