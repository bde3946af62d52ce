package journal

import "github.com/superstep-dev/superstep/internal/carry"

// Queued returns how many appends wait for the one that is under way.
func (j *Journal) Queued() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.queue)
}

// Carry returns what would follow a snapshot that is written with the results of the tasks.
func (j *Journal) Carry(tasks ...string) *carry.Data {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.carry(tasks)
}
