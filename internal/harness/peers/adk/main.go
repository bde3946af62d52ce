// The agent of W9 with ADK-Go. See ../README.md.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model/openaimodel"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"
)

type addition struct {
	A int `json:"a"`
	B int `json:"b"`
}

type sum struct {
	Sum int `json:"sum"`
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func main() {
	ctx := context.Background()
	var calls chan struct{}
	add := must(functiontool.New(functiontool.Config{Name: "add", Description: "Adds two numbers."}, func(_ agent.Context, in addition) (sum, error) {
		calls <- struct{}{}
		return sum{in.A + in.B}, nil
	}))
	adder := must(llmagent.New(llmagent.Config{
		Name: "adder", Description: "Adds numbers.", Instruction: "Add numbers.", Tools: []tool.Tool{add},
		Model: must(openaimodel.NewModel(ctx, "scripted", &openaimodel.ClientConfig{APIKey: "none", BaseURL: os.Args[1]})),
	}))
	n := 0
	talk := func() {
		n++
		calls = make(chan struct{}, 100)
		sessions := session.InMemoryService()
		r := must(runner.New(runner.Config{AppName: "bench", Agent: adder, SessionService: sessions, AutoCreateSession: true}))
		text := ""
		message := genai.NewContentFromText("Go.", genai.RoleUser)
		for e, err := range r.Run(ctx, "bench", fmt.Sprint(n), message, agent.RunConfig{StreamingMode: agent.StreamingModeSSE}) {
			if must(e, err).Content != nil && !e.Partial {
				text = ""
				for _, p := range e.Content.Parts {
					text += p.Text
				}
			}
		}
		if len(calls) != 40 || text != "done" {
			panic(fmt.Sprint(len(calls), " calls, ", text))
		}
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		c, t := cpu(), time.Now()
		for range 10 {
			talk()
		}
		fmt.Printf("{\"wall_ms\":%g,\"cpu_ms\":%g}\n", time.Since(t).Seconds()*1e3, cpu()-c)
	}
}

func cpu() float64 {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e6
}
