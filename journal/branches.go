package journal

import (
	"context"
	"sync"
)

// Branches are the parts of a task that run side by side. One that waits for an answer keeps its place and continues with the answer, whatever the others
// wait for. When none runs any more, those that wait end with what they wait for: the task waits, and whoever runs it runs it again.
type Branches struct {
	mu   sync.Mutex
	busy int           // of them, how many neither wait nor have ended
	idle chan struct{} // closed when none is busy
}

// NewBranches returns n branches that are about to run. Run or End is called once for each of them.
func NewBranches(n int) *Branches {
	return &Branches{busy: n, idle: make(chan struct{})}
}

// End notes that a branch does not run.
func (b *Branches) End() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy--; b.busy == 0 {
		close(b.idle)
	}
}

// Run runs a branch, whose part of the log is the scope: once, and again after each answer with which it can continue. Work is told whether it runs again;
// it must allow that within one attempt of the task. Run returns the last error of work. If that waits, no other branch runs, ctx has ended, or stopped
// is closed, which may be nil.
func (b *Branches) Run(ctx context.Context, s *Scope, stopped <-chan struct{}, work func(again bool) error) error {
	answered, deaf := s.Listen()
	defer deaf()
	for again := false; ; again = true {
		head := s.Head()
		if s != nil && s.used != nil {
			s.used.head.Store(head)
		}
		err := work(again)
		b.End()
		if !Waits(err) {
			return err
		}
		for goes := false; !goes; goes = s.News(head) && b.resume(ctx, stopped) {
			select {
			case <-answered:
			case <-b.idle:
				return err
			case <-ctx.Done():
				return err
			case <-stopped:
				return err
			}
		}
	}
}

// resume notes that a branch runs again, unless it is too late.
func (b *Branches) resume(ctx context.Context, stopped <-chan struct{}) bool {
	select {
	case <-stopped:
		return false
	default:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy == 0 || ctx.Err() != nil {
		return false
	}
	b.busy++
	return true
}
