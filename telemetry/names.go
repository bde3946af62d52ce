package telemetry

// The names of the GenAI semantic conventions that spans and metrics use. No released Go package has them any more: semconv v1.41.0 was the last, and the
// conventions are still in development. So they are listed here, without a schema URL.
const (
	keyOperation     = "gen_ai.operation.name"
	keyConversation  = "gen_ai.conversation.id"
	keyProvider      = "gen_ai.provider.name"
	keyAgentName     = "gen_ai.agent.name"
	keyAgentID       = "gen_ai.agent.id"
	keyAgentVersion  = "gen_ai.agent.version"
	keyWorkflow      = "gen_ai.workflow.name"
	keyModel         = "gen_ai.request.model"
	keyResponseID    = "gen_ai.response.id"
	keyFinish        = "gen_ai.response.finish_reasons"
	keyInput         = "gen_ai.usage.input_tokens"
	keyOutput        = "gen_ai.usage.output_tokens"
	keyCacheRead     = "gen_ai.usage.cache_read.input_tokens"
	keyCacheCreation = "gen_ai.usage.cache_creation.input_tokens"
	keyTool          = "gen_ai.tool.name"
	keyTokenType     = "gen_ai.token.type"
	keyErrorType     = "error.type"

	// Content, see Options.Content.
	keyInputMessages  = "gen_ai.input.messages"
	keyOutputMessages = "gen_ai.output.messages"
	keySystem         = "gen_ai.system_instructions"
	keyTools          = "gen_ai.tool.definitions"
	keyArguments      = "gen_ai.tool.call.arguments"
	keyResult         = "gen_ai.tool.call.result"

	opWorkflow = "invoke_workflow"
	opAgent    = "invoke_agent"
	opChat     = "chat"
	opTool     = "execute_tool"

	metricOperation = "gen_ai.client.operation.duration"
	metricTokens    = "gen_ai.client.token.usage" //nolint:gosec // of models
	metricWorkflow  = "gen_ai.workflow.duration"
	metricAgent     = "gen_ai.invoke_agent.duration"
	metricTurns     = "gen_ai.invoke_agent.inference_calls"
	metricCalls     = "gen_ai.invoke_agent.tool_calls"
	metricTool      = "gen_ai.execute_tool.duration"
)

// Names of our own.
const (
	keyRun       = "superstep.run.id"
	keyExecution = "superstep.execution"
	keyStatus    = "superstep.status"
	keyPath      = "superstep.task.path"
	keyFanKey    = "superstep.task.key"
	keyAttempt   = "superstep.task.attempt"
	keyStep      = "superstep.step"
	keyOnce      = "superstep.effect.once"
	keyEstimated = "superstep.estimated"
	keyTokens    = "superstep.tokens" //nolint:gosec // of models
	keyCost      = "superstep.cost"   // US dollars
	keyReason    = "superstep.reason"
	keyFirst     = "superstep.first_output_ms"
	keyLink      = "superstep.link" // what a link is: the execution before, or the run that the run is a fork of

	metricCost   = "superstep.cost"
	metricPaused = "superstep.run.paused.duration"
	metricRuns   = "superstep.runs"
	metricQueue  = "superstep.queue.wait"
)
