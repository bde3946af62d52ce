// The agent of W9 with Eino. See ../README.md.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cloudwego/eino-ext/components/model/openai"
	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
)

type addition struct {
	A int `json:"a"`
	B int `json:"b"`
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func main() {
	ctx := context.Background()
	var calls atomic.Int32
	add := must(utils.InferTool("add", "Adds two numbers.", func(_ context.Context, in addition) (int, error) {
		calls.Add(1)
		return in.A + in.B, nil
	}))
	agent := must(adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{
		Name: "adder", Description: "Adds numbers.", Instruction: "Add numbers.", MaxIterations: 30,
		Model:       must(openai.NewChatModel(ctx, &openai.ChatModelConfig{APIKey: "none", Model: "scripted", BaseURL: os.Args[1]})),
		ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: compose.ToolsNodeConfig{Tools: []tool.BaseTool{add}}},
	}))
	runner := adk.NewRunner(ctx, adk.RunnerConfig{Agent: agent, EnableStreaming: true})
	talk := func() {
		calls.Store(0)
		text := ""
		for events := runner.Query(ctx, "Go."); ; {
			e, ok := events.Next()
			if !ok {
				break
			}
			if e.Err != nil {
				panic(e.Err)
			}
			if e.Output == nil || e.Output.MessageOutput == nil {
				continue
			}
			text = ""
			out := e.Output.MessageOutput
			if !out.IsStreaming {
				text = out.Message.Content
				continue
			}
			for {
				m, err := out.MessageStream.Recv()
				if err == io.EOF {
					break
				}
				text += must(m, err).Content
			}
		}
		if calls.Load() != 40 || text != "done" {
			panic(fmt.Sprint(calls.Load(), " calls, ", text))
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
