package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// speaker is a model server of the chat completions protocol that says words at a steady rate.
type speaker struct {
	url   string
	words int           // of each answer
	gap   time.Duration // between two
}

func speak(words int, perSecond int) (*speaker, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &speaker{url: "http://" + l.Addr().String() + "/v1", words: words, gap: time.Second / time.Duration(perSecond)}
	go func() { _ = http.Serve(l, s) }()
	return s, nil
}

func (s *speaker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"words","object":"model"}]}`)
		return
	}
	var in struct {
		Stream bool `json:"stream"`
		Tools  []any
	}
	_ = json.Unmarshal(body, &in)
	words := s.words
	if len(in.Tools) == 0 { // a title, for those who ask for one
		words = 3
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w).Flush
	event := func(delta, finish string) {
		fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"words","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n",
			delta, finish)
		_ = flush()
	}
	event(`{"role":"assistant","content":""}`, "null")
	begin := time.Now()
	for i := range words {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * s.gap)))
		end := " "
		if i%12 == 11 {
			end = "\\n\\n"
		}
		event(fmt.Sprintf(`{"content":"word%s"}`, end), "null")
		if r.Context().Err() != nil {
			return
		}
	}
	event(`{}`, `"stop"`)
	fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"words","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":%d,"total_tokens":%d}}`+
		"\n\ndata: [DONE]\n\n", words, words+10)
}
