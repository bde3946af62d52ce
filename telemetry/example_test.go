package telemetry_test

import (
	"context"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/superstep-dev/superstep/telemetry"
)

// Export makes the spans of a log with a tracer provider of one's own.
func ExampleExport() {
	spans := tracetest.NewInMemoryExporter()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithIDGenerator(telemetry.IDs()))
	if err := telemetry.Export(context.Background(), "7f3a", seq(logs()["chain"]), tp, nil); err != nil {
		fmt.Println(err)
	}
	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name)
	}
	// Output:
	// task search
	// task write
	// invoke_workflow brief
}
