package graph

import "context"

// Execute is execute, for tests.
func (f *Flow[S, U]) Execute(ctx context.Context, state S, opt *RunOptions) (outcome[S], error) {
	return f.execute(ctx, state, opt)
}
